"""Device-tree example for Linux: registers through UIO, and memory for images that udmabuf hands out."""

from __future__ import annotations

from contracts.registers import REGISTERS

__all__ = ["device_tree"]


def device_tree(base: int = 0xA0000000, buffer: int = 0x70000000, size: int = 0x1000000, interrupt: int = 89) -> str:
    """Return an overlay, with places for the addresses of a system filled by these.

    Parameters
    ----------
    base
        Byte address of the registers.
    buffer, size
        Memory kept free for images: where the memory port sees it, and its bytes.
    interrupt
        Number of the interrupt at the controller, a level that is high.
    """
    span = max(0x1000, REGISTERS[-1].address + 4)
    return f"""// Example: adapt addresses, the interrupt and its controller, and the cells of your buses.
/dts-v1/;
/plugin/;

&{{/}} {{
	reserved-memory {{
		#address-cells = <1>;
		#size-cells = <1>;
		ranges;

		atoll_memory: atoll@{buffer:x} {{
			compatible = "shared-dma-pool";
			reg = <{buffer:#x} {size:#x}>;
			no-map;
		}};
	}};

	atoll@{base:x} {{
		compatible = "generic-uio";
		reg = <{base:#x} {span:#x}>;
		interrupt-parent = <&intc>;
		interrupts = <0 {interrupt} 4>;
	}};

	atoll_buffer: udmabuf@0 {{
		compatible = "ikwzm,u-dma-buf";
		device-name = "udmabuf0";
		size = <{size:#x}>;
		memory-region = <&atoll_memory>;
		// Where the memory port does not see the CPU's caches, leave out:
		dma-coherent;
	}};
}};
"""
