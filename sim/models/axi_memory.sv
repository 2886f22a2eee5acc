// AXI4 memory as a hardware model, for simulation only.
//
// Several ports reach the same bytes, as with a memory of several channels behind a switch that lets none wait for
// another: each has its own bandwidth.
//
// Reads and writes are pipelined: at any latency a beat a cycle goes each way while enough bursts are under way
// (QUEUE of every ID). Only full-width INCR bursts exist, as axi_checker demands. A write takes effect when its
// answer is sent and a read looks at the memory when its beat is sent, so a manager that reads what it wrote without
// waiting for the answer reads old data.
//
// Files are raw bytes in memory order. `load` reads the file named by +<NAME>_image=FILE to the first address, as the
// end of the first reset does if the file exists; `dump` writes `dump_beats` beats from beat `dump_first` to the file
// named by +<NAME>_dump=FILE. Where memories are NUMBERED, `number` follows the name.
module axi_memory #(
    parameter int DATA_WIDTH = 256,
    parameter int ADDR_WIDTH = 32,
    parameter int ID_WIDTH = 2,
    parameter int DEPTH = 131072,  // beats
    parameter int QUEUE = 256,  // bursts of an ID under way; write beats under way; a power of two
    parameter int MAX_BEATS = 16,  // of a burst
    parameter int PORTS = 1,  // of which each has a bandwidth and a rhythm of stalls of its own
    parameter NAME = "mem",
    parameter bit NUMBERED = 0
) (
    input logic clk,
    input logic rst,

    input  logic [PORTS-1:0][ID_WIDTH-1:0] s_axi_arid,
    input  logic [PORTS-1:0][ADDR_WIDTH-1:0] s_axi_araddr,
    input  logic [PORTS-1:0][7:0] s_axi_arlen,
    input  logic [PORTS-1:0][2:0] s_axi_arsize,
    input  logic [PORTS-1:0][1:0] s_axi_arburst,
    input  logic [PORTS-1:0][2:0] s_axi_arprot,
    input  logic [PORTS-1:0] s_axi_arvalid,
    output logic [PORTS-1:0] s_axi_arready,
    output logic [PORTS-1:0][ID_WIDTH-1:0] s_axi_rid,
    output logic [PORTS-1:0][DATA_WIDTH-1:0] s_axi_rdata,
    output logic [PORTS-1:0][1:0] s_axi_rresp,
    output logic [PORTS-1:0] s_axi_rlast,
    output logic [PORTS-1:0] s_axi_rvalid,
    input  logic [PORTS-1:0] s_axi_rready,
    input  logic [PORTS-1:0][ID_WIDTH-1:0] s_axi_awid,
    input  logic [PORTS-1:0][ADDR_WIDTH-1:0] s_axi_awaddr,
    input  logic [PORTS-1:0][7:0] s_axi_awlen,
    input  logic [PORTS-1:0][2:0] s_axi_awsize,
    input  logic [PORTS-1:0][1:0] s_axi_awburst,
    input  logic [PORTS-1:0][2:0] s_axi_awprot,
    input  logic [PORTS-1:0] s_axi_awvalid,
    output logic [PORTS-1:0] s_axi_awready,
    input  logic [PORTS-1:0][DATA_WIDTH-1:0] s_axi_wdata,
    input  logic [PORTS-1:0][DATA_WIDTH/8-1:0] s_axi_wstrb,
    input  logic [PORTS-1:0] s_axi_wlast,
    input  logic [PORTS-1:0] s_axi_wvalid,
    output logic [PORTS-1:0] s_axi_wready,
    output logic [PORTS-1:0][ID_WIDTH-1:0] s_axi_bid,
    output logic [PORTS-1:0][1:0] s_axi_bresp,
    output logic [PORTS-1:0] s_axi_bvalid,
    input  logic [PORTS-1:0] s_axi_bready,

    input logic [7:0] number,

    // What it does, changeable at any time.
    input logic [ADDR_WIDTH-1:0] origin,  // address of the first byte
    input logic [15:0] latency,  // cycles from AR to the first beat of R, and from W to B; at least 1
    input logic [7:0] bandwidth_beats,  // this many beats each way ...
    input logic [7:0] bandwidth_cycles,  // ... in so many cycles; 0: a beat a cycle
    input logic [4:0][7:0] stall,  // chance of a stall in 256, of AR, R, AW, W, B (AR lowest)
    input logic out_of_order,  // beats of different IDs come in any order, interleaved
    input logic [ADDR_WIDTH-1:0] read_error_first,  // reads of these bytes end in SLVERR; none if first > last
    input logic [ADDR_WIDTH-1:0] read_error_last,
    input logic [ADDR_WIDTH-1:0] write_error_first,  // writes of these bytes do nothing and end in SLVERR
    input logic [ADDR_WIDTH-1:0] write_error_last,
    input logic [31:0] seed,  // of stalls and of the order, taken during reset
    input logic load,
    input logic dump,
    input logic [31:0] dump_first,
    input logic [31:0] dump_beats,

    // Since the last reset.
    output logic [63:0] beats_read,
    output logic [63:0] beats_written,
    output logic [63:0] bytes_read,
    output logic [63:0] bytes_written,  // bytes with a strobe
    output logic [63:0] busy_cycles,  // something was under way
    output logic idle  // nothing is under way
);
  localparam int BYTES = DATA_WIDTH / 8;
  localparam int SIZE = $clog2(BYTES);
  localparam int IDS = 1 << ID_WIDTH;
  localparam int POINTER = $clog2(QUEUE);
  localparam logic [1:0] OKAY = 2'b00, SLVERR = 2'b10, DECERR = 2'b11;

  typedef logic [ADDR_WIDTH-1:0] address_t;
  typedef logic [DATA_WIDTH-1:0] beat_t;
  typedef logic [POINTER:0] pointer_t;  // one bit more than an index, so that full and empty differ

  beat_t memory[DEPTH];

  for (genvar p = 0; p < PORTS; p++) begin : ports
    axi_checker #(
        .DATA_WIDTH(DATA_WIDTH),
        .ADDR_WIDTH(ADDR_WIDTH),
        .ID_WIDTH(ID_WIDTH),
        .MAX_BEATS(MAX_BEATS),
        .QUEUE(2 * QUEUE)
    ) checker_ (
        .clk,
        .rst,
        .s_axi_arid(s_axi_arid[p]),
        .s_axi_araddr(s_axi_araddr[p]),
        .s_axi_arlen(s_axi_arlen[p]),
        .s_axi_arsize(s_axi_arsize[p]),
        .s_axi_arburst(s_axi_arburst[p]),
        .s_axi_arprot(s_axi_arprot[p]),
        .s_axi_arvalid(s_axi_arvalid[p]),
        .s_axi_arready(s_axi_arready[p]),
        .s_axi_rid(s_axi_rid[p]),
        .s_axi_rdata(s_axi_rdata[p]),
        .s_axi_rresp(s_axi_rresp[p]),
        .s_axi_rlast(s_axi_rlast[p]),
        .s_axi_rvalid(s_axi_rvalid[p]),
        .s_axi_rready(s_axi_rready[p]),
        .s_axi_awid(s_axi_awid[p]),
        .s_axi_awaddr(s_axi_awaddr[p]),
        .s_axi_awlen(s_axi_awlen[p]),
        .s_axi_awsize(s_axi_awsize[p]),
        .s_axi_awburst(s_axi_awburst[p]),
        .s_axi_awprot(s_axi_awprot[p]),
        .s_axi_awvalid(s_axi_awvalid[p]),
        .s_axi_awready(s_axi_awready[p]),
        .s_axi_wdata(s_axi_wdata[p]),
        .s_axi_wstrb(s_axi_wstrb[p]),
        .s_axi_wlast(s_axi_wlast[p]),
        .s_axi_wvalid(s_axi_wvalid[p]),
        .s_axi_wready(s_axi_wready[p]),
        .s_axi_bid(s_axi_bid[p]),
        .s_axi_bresp(s_axi_bresp[p]),
        .s_axi_bvalid(s_axi_bvalid[p]),
        .s_axi_bready(s_axi_bready[p])
    );
  end

  // Files ------------------------------------------------------------------------------------------------------------
  // Returns the name of a file, empty if none was given. Not before the end of a reset: `number` may have no value yet.
  function automatic string file_name(input string kind);
    string name, format;
    name = NUMBERED ? $sformatf("%s%0d_%s", NAME, number, kind) : $sformatf("%s_%s", NAME, kind);
    format = {name, "=%s"};
    if ($value$plusargs(format, name) == 0) return "";
    return name;
  endfunction

  task automatic read_image(input bit required);
    int file, bytes;
    logic [8*BYTES-1:0] beat;
    string name;
    name = file_name("image");
    if (name == "" && required) $fatal(1, "load without +%s..._image", NAME);
    if (name == "") return;
    file = $fopen(name, "rb");
    if (file == 0 && required) $fatal(1, "cannot read %s", name);
    if (file == 0) return;
    bytes = $fread(memory, file);
    $fclose(file);
    // $fread puts the first byte highest. Byte by byte: Verilator's stream operator takes 4,500 instructions a beat.
    for (int i = 0; i < (bytes + BYTES - 1) / BYTES; i++) begin
      beat = memory[i];
      for (int b = 0; b < BYTES; b++) memory[i][8*b+:8] = beat[8*(BYTES-1-b)+:8];
    end
  endtask

  task automatic write_dump();
    int file;
    string name;
    name = file_name("dump");
    if (name == "") $fatal(1, "dump without +%s..._dump", NAME);
    file = $fopen(name, "wb");
    if (file == 0) $fatal(1, "cannot write %s", name);
    for (int i = 0; i < int'(dump_beats); i++) $fwrite(file, "%u", memory[int'(dump_first)+i]);
    $fclose(file);
  endtask

  // Chance: xorshift64, one number a cycle ---------------------------------------------------------------------------
  logic [63:0] random;

  function automatic logic [63:0] shifted(input logic [63:0] x);
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x;
  endfunction

  // Each port has other bits of the number.
  function automatic logic stalls(input int channel, input int port);
    logic [127:0] twice;
    twice = {random, random};
    return twice[8*channel+11*port+:8] < stall[channel];
  endfunction

  // Where an access goes
  function automatic logic [1:0] response(input address_t address, input address_t first, input address_t last);
    if ((address >> SIZE) >= address_t'(DEPTH)) return DECERR;
    // The beat and the range overlap.
    if (first <= last && address + address_t'(BYTES - 1) >= first && address <= last) return SLVERR;
    return OKAY;
  endfunction

  // State ------------------------------------------------------------------------------------------------------------
  // There has been a reset; it has ended. Before, nothing has a meaning.
  bit was_reset = 0, started = 0;
  logic [63:0] now;

  address_t read_address[PORTS][IDS*QUEUE];
  logic [7:0] read_length[PORTS][IDS*QUEUE];
  logic [63:0] read_accepted[PORTS][IDS*QUEUE];
  pointer_t read_tail[PORTS][IDS], read_head[PORTS][IDS];
  logic [7:0] read_index[PORTS][IDS];

  address_t write_address[PORTS][QUEUE];
  logic [ID_WIDTH-1:0] write_id[PORTS][QUEUE];
  pointer_t write_tail[PORTS], write_head[PORTS];
  beat_t data_beat[PORTS][QUEUE];
  logic [BYTES-1:0] data_strobe[PORTS][QUEUE];
  logic data_last[PORTS][QUEUE];
  logic [63:0] data_accepted[PORTS][QUEUE];
  pointer_t data_tail[PORTS], data_head[PORTS];
  logic [7:0] write_index[PORTS];
  logic write_failed[PORTS];

  logic [8:0] read_credit[PORTS], write_credit[PORTS];

  function automatic logic room(input pointer_t tail, input pointer_t head);
    return pointer_t'(tail - head) < pointer_t'(QUEUE - 1);
  endfunction

  function automatic logic unlimited();
    return bandwidth_cycles == 0;
  endfunction

  // One block, so that state that only it uses can be written in order.
  // verilator lint_off BLKSEQ
  always_ff @(posedge clk) begin
    int entry, at, chosen, id, beats_in, beats_out, bytes_out;
    logic [1:0] answer;
    logic all_room, pending, waits;
    address_t address;

    if (rst) begin
      was_reset = 1;
      random = {seed, ~seed} | 64'd1;
      now = 0;
      for (int p = 0; p < PORTS; p++) begin
        for (int i = 0; i < IDS; i++) begin
          read_tail[p][i]  = 0;
          read_head[p][i]  = 0;
          read_index[p][i] = 0;
        end
        {write_tail[p], write_head[p], data_tail[p], data_head[p]} = '0;
        {write_index[p], write_failed[p], read_credit[p], write_credit[p]} = '0;
      end
      {s_axi_arready, s_axi_awready, s_axi_wready, s_axi_rvalid, s_axi_bvalid} <= '0;
      {beats_read, beats_written, bytes_read, bytes_written, busy_cycles} <= '0;
      idle <= 1;
    end else if (was_reset) begin
      if (!started) read_image(0);
      started = 1;
      random = shifted(random);
      now = now + 1;
      if (load) read_image(1);
      if (dump) write_dump();
      pending = 0;
      {beats_in, beats_out, bytes_out} = '0;

      for (int p = 0; p < PORTS; p++) begin
        if (s_axi_arvalid[p] && s_axi_arready[p]) begin
          entry = int'(s_axi_arid[p]) * QUEUE + int'(read_tail[p][s_axi_arid[p]][POINTER-1:0]);
          read_address[p][entry] = s_axi_araddr[p] - origin;
          read_length[p][entry] = s_axi_arlen[p];
          read_accepted[p][entry] = now;
          read_tail[p][s_axi_arid[p]]++;
        end
        if (s_axi_awvalid[p] && s_axi_awready[p]) begin
          write_address[p][write_tail[p][POINTER-1:0]] = s_axi_awaddr[p] - origin;
          write_id[p][write_tail[p][POINTER-1:0]] = s_axi_awid[p];
          write_tail[p]++;
        end
        if (s_axi_wvalid[p] && s_axi_wready[p]) begin
          data_beat[p][data_tail[p][POINTER-1:0]] = s_axi_wdata[p];
          data_strobe[p][data_tail[p][POINTER-1:0]] = s_axi_wstrb[p];
          data_last[p][data_tail[p][POINTER-1:0]] = s_axi_wlast[p];
          data_accepted[p][data_tail[p][POINTER-1:0]] = now;
          data_tail[p]++;
          bytes_out += $countones(s_axi_wstrb[p]);
          beats_out++;
        end

        // R: the oldest burst's next beat, or any burst's. A beat that is offered in the next cycle was chosen in this
        // one.
        if (read_credit[p] < 9'(bandwidth_cycles) + 9'(bandwidth_beats)) read_credit[p] += 9'(bandwidth_beats);
        if (s_axi_rvalid[p] && s_axi_rready[p]) begin
          s_axi_rvalid[p] <= 0;
          beats_in++;
        end
        waits  = 0;
        chosen = -1;
        at = int'(random[47:40]);
        for (int i = 0; i < IDS; i++) begin
          id = (at + i) % IDS;
          if (read_tail[p][id] != read_head[p][id]) begin
            waits = 1;
            entry = id * QUEUE + int'(read_head[p][id][POINTER-1:0]);
            if (out_of_order) begin
              if (chosen < 0 && now + 1 >= read_accepted[p][entry] + 64'(latency)) chosen = id;
            end else if (chosen < 0 || read_accepted[p][entry] <
                read_accepted[p][chosen * QUEUE + int'(read_head[p][chosen][POINTER-1:0])]) begin
              chosen = id;
            end
          end
        end
        if (chosen >= 0 && (!s_axi_rvalid[p] || s_axi_rready[p]) && !stalls(1, p) &&
            (unlimited() || read_credit[p] >= 9'(bandwidth_cycles))) begin
          entry = chosen * QUEUE + int'(read_head[p][chosen][POINTER-1:0]);
          if (now + 1 >= read_accepted[p][entry] + 64'(latency)) begin
            address = read_address[p][entry] + (address_t'(read_index[p][chosen]) << SIZE);
            answer = response(address, read_error_first, read_error_last);
            s_axi_rvalid[p] <= 1;
            s_axi_rid[p] <= ID_WIDTH'(chosen);
            s_axi_rdata[p] <= answer == OKAY ? memory[32'(address>>SIZE)]
                : DATA_WIDTH'({((DATA_WIDTH + 63) / 64) {random}});
            s_axi_rresp[p] <= answer;
            s_axi_rlast[p] <= read_index[p][chosen] == read_length[p][entry];
            if (read_index[p][chosen] == read_length[p][entry]) begin
              read_index[p][chosen] = 0;
              read_head[p][chosen]++;
            end else read_index[p][chosen]++;
            if (!unlimited()) read_credit[p] -= 9'(bandwidth_cycles);
          end
        end

        // W: the oldest beat takes effect; with the last of its burst the answer is offered.
        if (write_credit[p] < 9'(bandwidth_cycles) + 9'(bandwidth_beats)) write_credit[p] += 9'(bandwidth_beats);
        if (s_axi_bvalid[p] && s_axi_bready[p]) s_axi_bvalid[p] <= 0;
        at = int'(data_head[p][POINTER-1:0]);
        if (data_head[p] != data_tail[p] && write_head[p] != write_tail[p] &&
            now + 1 >= data_accepted[p][at] + 64'(latency) &&
            (unlimited() || write_credit[p] >= 9'(bandwidth_cycles)) &&
            (!data_last[p][at] || ((!s_axi_bvalid[p] || s_axi_bready[p]) && !stalls(4, p)))) begin
          entry = int'(write_head[p][POINTER-1:0]);
          address = write_address[p][entry] + (address_t'(write_index[p]) << SIZE);
          answer = response(address, write_error_first, write_error_last);
          if (answer == OKAY) begin
            for (int i = 0; i < BYTES; i++)
              if (data_strobe[p][at][i]) memory[32'(address>>SIZE)][8*i+:8] = data_beat[p][at][8*i+:8];
          end else write_failed[p] = 1;
          write_index[p]++;
          if (data_last[p][at]) begin
            s_axi_bvalid[p] <= 1;
            s_axi_bid[p] <= write_id[p][entry];
            s_axi_bresp[p] <= !write_failed[p] ? OKAY : answer == DECERR ? DECERR : SLVERR;
            write_index[p]  = 0;
            write_failed[p] = 0;
            write_head[p]++;
          end
          data_head[p]++;
          if (!unlimited()) write_credit[p] -= 9'(bandwidth_cycles);
        end

        all_room = 1;
        for (int i = 0; i < IDS; i++) all_room &= room(read_tail[p][i], read_head[p][i]);
        s_axi_arready[p] <= all_room && !stalls(0, p);
        s_axi_awready[p] <= room(write_tail[p], write_head[p]) && !stalls(2, p);
        s_axi_wready[p] <= room(data_tail[p], data_head[p]) && !stalls(3, p);
        pending |= waits || write_tail[p] != write_head[p] || data_tail[p] != data_head[p] || s_axi_rvalid[p] ||
            s_axi_bvalid[p];
      end
      beats_read <= beats_read + 64'(beats_in);
      bytes_read <= bytes_read + 64'(beats_in) * 64'(BYTES);
      beats_written <= beats_written + 64'(beats_out);
      bytes_written <= bytes_written + 64'(bytes_out);
      idle <= !pending;
      if (pending) busy_cycles <= busy_cycles + 1;
    end
  end
  // verilator lint_on BLKSEQ
endmodule
