// AXI4 memory as a hardware model, for simulation only.
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
    parameter NAME = "mem",
    parameter bit NUMBERED = 0
) (
    input logic clk,
    input logic rst,

    input  logic [    ID_WIDTH-1:0] s_axi_arid,
    input  logic [  ADDR_WIDTH-1:0] s_axi_araddr,
    input  logic [             7:0] s_axi_arlen,
    input  logic [             2:0] s_axi_arsize,
    input  logic [             1:0] s_axi_arburst,
    input  logic [             2:0] s_axi_arprot,
    input  logic                    s_axi_arvalid,
    output logic                    s_axi_arready,
    output logic [    ID_WIDTH-1:0] s_axi_rid,
    output logic [  DATA_WIDTH-1:0] s_axi_rdata,
    output logic [             1:0] s_axi_rresp,
    output logic                    s_axi_rlast,
    output logic                    s_axi_rvalid,
    input  logic                    s_axi_rready,
    input  logic [    ID_WIDTH-1:0] s_axi_awid,
    input  logic [  ADDR_WIDTH-1:0] s_axi_awaddr,
    input  logic [             7:0] s_axi_awlen,
    input  logic [             2:0] s_axi_awsize,
    input  logic [             1:0] s_axi_awburst,
    input  logic [             2:0] s_axi_awprot,
    input  logic                    s_axi_awvalid,
    output logic                    s_axi_awready,
    input  logic [  DATA_WIDTH-1:0] s_axi_wdata,
    input  logic [DATA_WIDTH/8-1:0] s_axi_wstrb,
    input  logic                    s_axi_wlast,
    input  logic                    s_axi_wvalid,
    output logic                    s_axi_wready,
    output logic [    ID_WIDTH-1:0] s_axi_bid,
    output logic [             1:0] s_axi_bresp,
    output logic                    s_axi_bvalid,
    input  logic                    s_axi_bready,

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

  axi_checker #(
      .DATA_WIDTH(DATA_WIDTH),
      .ADDR_WIDTH(ADDR_WIDTH),
      .ID_WIDTH(ID_WIDTH),
      .MAX_BEATS(MAX_BEATS),
      .QUEUE(2 * QUEUE)
  ) checker_ (
      .*
  );

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
    string name;
    name = file_name("image");
    if (name == "" && required) $fatal(1, "load without +%s..._image", NAME);
    if (name == "") return;
    file = $fopen(name, "rb");
    if (file == 0 && required) $fatal(1, "cannot read %s", name);
    if (file == 0) return;
    bytes = $fread(memory, file);
    $fclose(file);
    // $fread puts the first byte highest.
    for (int i = 0; i < (bytes + BYTES - 1) / BYTES; i++) memory[i] = {<<8{memory[i]}};
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

  function automatic logic stalls(input int channel);
    return random[8*channel+:8] < stall[channel];
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

  address_t read_address[IDS*QUEUE];
  logic [7:0] read_length[IDS*QUEUE];
  logic [63:0] read_accepted[IDS*QUEUE];
  pointer_t read_tail[IDS], read_head[IDS];
  logic [7:0] read_index[IDS];

  address_t write_address[QUEUE];
  logic [ID_WIDTH-1:0] write_id[QUEUE];
  pointer_t write_tail, write_head;
  beat_t data_beat[QUEUE];
  logic [BYTES-1:0] data_strobe[QUEUE];
  logic data_last[QUEUE];
  logic [63:0] data_accepted[QUEUE];
  pointer_t data_tail, data_head;
  logic [7:0] write_index;
  logic write_failed;

  logic [8:0] read_credit, write_credit;

  function automatic logic room(input pointer_t tail, input pointer_t head);
    return pointer_t'(tail - head) < pointer_t'(QUEUE - 1);
  endfunction

  function automatic logic unlimited();
    return bandwidth_cycles == 0;
  endfunction

  // One block, so that state that only it uses can be written in order.
  // verilator lint_off BLKSEQ
  always_ff @(posedge clk) begin
    int entry, at, chosen, id;
    logic [1:0] answer;
    logic all_room, pending;
    address_t address;

    if (rst) begin
      was_reset = 1;
      random = {seed, ~seed} | 64'd1;
      now = 0;
      for (int i = 0; i < IDS; i++) begin
        read_tail[i]  = 0;
        read_head[i]  = 0;
        read_index[i] = 0;
      end
      {write_tail, write_head, data_tail, data_head} = '0;
      {write_index, write_failed, read_credit, write_credit} = '0;
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

      if (s_axi_arvalid && s_axi_arready) begin
        entry = int'(s_axi_arid) * QUEUE + int'(read_tail[s_axi_arid][POINTER-1:0]);
        read_address[entry] = s_axi_araddr - origin;
        read_length[entry] = s_axi_arlen;
        read_accepted[entry] = now;
        read_tail[s_axi_arid]++;
      end
      if (s_axi_awvalid && s_axi_awready) begin
        write_address[write_tail[POINTER-1:0]] = s_axi_awaddr - origin;
        write_id[write_tail[POINTER-1:0]] = s_axi_awid;
        write_tail++;
      end
      if (s_axi_wvalid && s_axi_wready) begin
        data_beat[data_tail[POINTER-1:0]] = s_axi_wdata;
        data_strobe[data_tail[POINTER-1:0]] = s_axi_wstrb;
        data_last[data_tail[POINTER-1:0]] = s_axi_wlast;
        data_accepted[data_tail[POINTER-1:0]] = now;
        data_tail++;
        bytes_written <= bytes_written + 64'($countones(s_axi_wstrb));
        beats_written <= beats_written + 1;
      end

      // R: the oldest burst's next beat, or any burst's. A beat that is offered in the next cycle was chosen in this one.
      if (read_credit < 9'(bandwidth_cycles) + 9'(bandwidth_beats)) read_credit += 9'(bandwidth_beats);
      if (s_axi_rvalid && s_axi_rready) begin
        s_axi_rvalid <= 0;
        beats_read <= beats_read + 1;
        bytes_read <= bytes_read + 64'(BYTES);
      end
      pending = 0;
      chosen  = -1;
      at = int'(random[47:40]);
      for (int i = 0; i < IDS; i++) begin
        id = (at + i) % IDS;
        if (read_tail[id] != read_head[id]) begin
          pending = 1;
          entry   = id * QUEUE + int'(read_head[id][POINTER-1:0]);
          if (out_of_order) begin
            if (chosen < 0 && now + 1 >= read_accepted[entry] + 64'(latency)) chosen = id;
          end else if (chosen < 0 || read_accepted[entry] <
              read_accepted[chosen * QUEUE + int'(read_head[chosen][POINTER-1:0])]) begin
            chosen = id;
          end
        end
      end
      if (chosen >= 0 && (!s_axi_rvalid || s_axi_rready) && !stalls(1) &&
          (unlimited() || read_credit >= 9'(bandwidth_cycles))) begin
        entry = chosen * QUEUE + int'(read_head[chosen][POINTER-1:0]);
        if (now + 1 >= read_accepted[entry] + 64'(latency)) begin
          address = read_address[entry] + (address_t'(read_index[chosen]) << SIZE);
          answer  = response(address, read_error_first, read_error_last);
          s_axi_rvalid <= 1;
          s_axi_rid <= ID_WIDTH'(chosen);
          s_axi_rdata <= answer == OKAY ? memory[32'(address>>SIZE)] : DATA_WIDTH'({((DATA_WIDTH + 63) / 64) {random}});
          s_axi_rresp <= answer;
          s_axi_rlast <= read_index[chosen] == read_length[entry];
          if (read_index[chosen] == read_length[entry]) begin
            read_index[chosen] = 0;
            read_head[chosen]++;
          end else read_index[chosen]++;
          if (!unlimited()) read_credit -= 9'(bandwidth_cycles);
        end
      end

      // W: the oldest beat takes effect; with the last of its burst the answer is offered.
      if (write_credit < 9'(bandwidth_cycles) + 9'(bandwidth_beats)) write_credit += 9'(bandwidth_beats);
      if (s_axi_bvalid && s_axi_bready) s_axi_bvalid <= 0;
      at = int'(data_head[POINTER-1:0]);
      if (data_head != data_tail && write_head != write_tail && now + 1 >= data_accepted[at] + 64'(latency) &&
          (unlimited() || write_credit >= 9'(bandwidth_cycles)) &&
          (!data_last[at] || ((!s_axi_bvalid || s_axi_bready) && !stalls(4)))) begin
        entry = int'(write_head[POINTER-1:0]);
        address = write_address[entry] + (address_t'(write_index) << SIZE);
        answer = response(address, write_error_first, write_error_last);
        if (answer == OKAY) begin
          for (int i = 0; i < BYTES; i++)
            if (data_strobe[at][i]) memory[32'(address>>SIZE)][8*i+:8] = data_beat[at][8*i+:8];
        end else write_failed = 1;
        write_index++;
        if (data_last[at]) begin
          s_axi_bvalid <= 1;
          s_axi_bid <= write_id[entry];
          s_axi_bresp <= !write_failed ? OKAY : answer == DECERR ? DECERR : SLVERR;
          write_index  = 0;
          write_failed = 0;
          write_head++;
        end
        data_head++;
        if (!unlimited()) write_credit -= 9'(bandwidth_cycles);
      end

      all_room = 1;
      for (int i = 0; i < IDS; i++) all_room &= room(read_tail[i], read_head[i]);
      s_axi_arready <= all_room && !stalls(0);
      s_axi_awready <= room(write_tail, write_head) && !stalls(2);
      s_axi_wready <= room(data_tail, data_head) && !stalls(3);
      pending |= write_tail != write_head || data_tail != data_head || s_axi_rvalid || s_axi_bvalid;
      idle <= !pending;
      if (pending) busy_cycles <= busy_cycles + 1;
    end
  end
  // verilator lint_on BLKSEQ
endmodule
