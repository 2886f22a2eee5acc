// Pages of a sparse address space in front of a dense `axi_memory`, for simulation only.
//
// Page n of those that exist, in ascending order, is page n of the memory behind. All others are mapped behind its end,
// where it answers DECERR. No burst crosses a page, so its address is all that changes.
//
// A file has the numbers of the pages that exist, 64 bits each, lowest byte first; `load` reads the one named by
// +<NAME>_pages=FILE, in the cycle in which the memory reads its image.
module page_map #(
    parameter int ADDR_WIDTH = 40,
    parameter int PAGES = 256,  // of the memory behind
    parameter NAME = "mem"
) (
    input logic clk,
    input logic rst,
    input logic load,
    input logic [ADDR_WIDTH-1:0] address,
    output logic [ADDR_WIDTH-1:0] place
);
  localparam int OFFSET = 12;

  typedef logic [ADDR_WIDTH-OFFSET-1:0] page_t;

  page_t pages[PAGES];
  int count = 0;
  bit was_reset = 0;  // before, nothing has a meaning

  task automatic read_pages();
    int file;
    logic [63:0] entry;
    string name;
    if ($value$plusargs({NAME, "_pages=%s"}, name) == 0) $fatal(1, "load without +%s_pages", NAME);
    file = $fopen(name, "rb");
    if (file == 0) $fatal(1, "cannot read %s", name);
    count = 0;
    while ($fread(entry, file) == 8) begin
      if (count == PAGES) $fatal(1, "%s has more than %0d pages", name, PAGES);
      // $fread puts the first byte highest.
      entry = {<<8{entry}};
      pages[count] = page_t'(entry);
      count = count + 1;
    end
    $fclose(file);
  endtask

  // verilator lint_off BLKSEQ
  always_ff @(posedge clk) begin
    if (rst) was_reset = 1;
    else if (was_reset && load) read_pages();
  end
  // verilator lint_on BLKSEQ

  // Search by halves.
  always_comb begin
    int low, high, middle;
    page_t wanted;
    wanted = address[ADDR_WIDTH-1:OFFSET];
    low = 0;
    high = count;
    while (low < high) begin
      middle = (low + high) / 2;
      if (pages[middle] < wanted) low = middle + 1;
      else high = middle;
    end
    place = {low < count && pages[low] == wanted ? page_t'(low) : '1, address[OFFSET-1:0]};
  end
endmodule
