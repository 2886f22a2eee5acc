// Rules of AXI4 that every port of this project keeps; `$error` ends the simulation and fails the test.
//
// Beyond the standard: bursts are INCR, as wide as the bus, aligned, of at most MAX_BEATS beats.
module axi_checker #(
    parameter int DATA_WIDTH = 256,
    parameter int ADDR_WIDTH = 32,
    parameter int ID_WIDTH = 2,
    parameter int MAX_BEATS = 16,
    parameter int QUEUE = 512  // bursts under way, of an ID; a power of two
) (
    input logic clk,
    input logic rst,

    input logic [    ID_WIDTH-1:0] s_axi_arid,
    input logic [  ADDR_WIDTH-1:0] s_axi_araddr,
    input logic [             7:0] s_axi_arlen,
    input logic [             2:0] s_axi_arsize,
    input logic [             1:0] s_axi_arburst,
    input logic [             2:0] s_axi_arprot,
    input logic                    s_axi_arvalid,
    input logic                    s_axi_arready,
    input logic [    ID_WIDTH-1:0] s_axi_rid,
    input logic [  DATA_WIDTH-1:0] s_axi_rdata,
    input logic [             1:0] s_axi_rresp,
    input logic                    s_axi_rlast,
    input logic                    s_axi_rvalid,
    input logic                    s_axi_rready,
    input logic [    ID_WIDTH-1:0] s_axi_awid,
    input logic [  ADDR_WIDTH-1:0] s_axi_awaddr,
    input logic [             7:0] s_axi_awlen,
    input logic [             2:0] s_axi_awsize,
    input logic [             1:0] s_axi_awburst,
    input logic [             2:0] s_axi_awprot,
    input logic                    s_axi_awvalid,
    input logic                    s_axi_awready,
    input logic [  DATA_WIDTH-1:0] s_axi_wdata,
    input logic [DATA_WIDTH/8-1:0] s_axi_wstrb,
    input logic                    s_axi_wlast,
    input logic                    s_axi_wvalid,
    input logic                    s_axi_wready,
    input logic [    ID_WIDTH-1:0] s_axi_bid,
    input logic [             1:0] s_axi_bresp,
    input logic                    s_axi_bvalid,
    input logic                    s_axi_bready
);
  localparam int SIZE = $clog2(DATA_WIDTH / 8);
  localparam int IDS = 1 << ID_WIDTH;
  localparam int POINTER = $clog2(QUEUE);
  localparam int PAGE = 4096;

  // A channel keeps what it offers until it is taken, and offers nothing right after reset.
  axi_channel_checker #(.NAME("AR"), .WIDTH(ID_WIDTH + ADDR_WIDTH + 16)) ar (
      .valid(s_axi_arvalid), .ready(s_axi_arready), .*,
      .payload({s_axi_arid, s_axi_araddr, s_axi_arlen, s_axi_arsize, s_axi_arburst, s_axi_arprot}));
  axi_channel_checker #(.NAME("R"), .WIDTH(ID_WIDTH + DATA_WIDTH + 3)) r (
      .valid(s_axi_rvalid), .ready(s_axi_rready), .*,
      .payload({s_axi_rid, s_axi_rdata, s_axi_rresp, s_axi_rlast}));
  axi_channel_checker #(.NAME("AW"), .WIDTH(ID_WIDTH + ADDR_WIDTH + 16)) aw (
      .valid(s_axi_awvalid), .ready(s_axi_awready), .*,
      .payload({s_axi_awid, s_axi_awaddr, s_axi_awlen, s_axi_awsize, s_axi_awburst, s_axi_awprot}));
  axi_channel_checker #(.NAME("W"), .WIDTH(DATA_WIDTH + DATA_WIDTH / 8 + 1)) w (
      .valid(s_axi_wvalid), .ready(s_axi_wready), .*,
      .payload({s_axi_wdata, s_axi_wstrb, s_axi_wlast}));
  axi_channel_checker #(.NAME("B"), .WIDTH(ID_WIDTH + 2)) b (
      .valid(s_axi_bvalid), .ready(s_axi_bready), .*, .payload({s_axi_bid, s_axi_bresp}));

  task automatic check_address(input string channel, input logic [ADDR_WIDTH-1:0] address, input logic [7:0] length,
                               input logic [2:0] size, input logic [1:0] burst);
    int offset, bytes;
    offset = int'(address[11:0]);
    bytes  = (int'(length) + 1) << SIZE;
    if (burst != 2'b01) $error("%s: burst is not INCR but %0d", channel, burst);
    if (int'(size) != SIZE) $error("%s: size %0d is not the width of the bus", channel, size);
    if (int'(length) >= MAX_BEATS) $error("%s: %0d beats", channel, int'(length) + 1);
    if (offset % (1 << SIZE) != 0) $error("%s: address %0h is not aligned to beats", channel, address);
    if (offset + bytes > PAGE) $error("%s: %0d bytes from %0h cross 4 KiB", channel, bytes, address);
  endtask

  typedef logic [POINTER:0] pointer_t;

  bit started = 0;  // there has been a reset; before it, nothing has a meaning

  logic [7:0] read_length[IDS*QUEUE];
  pointer_t read_tail[IDS], read_head[IDS];
  logic [8:0] read_index[IDS];

  // Write bursts announced on AW and ended on W, in order; the shorter list waits for the other.
  logic [7:0] announced[QUEUE], sent[QUEUE];
  pointer_t announced_tail, sent_tail, write_head;
  logic [8:0] write_index;
  int unanswered[IDS];
  logic [ID_WIDTH-1:0] write_id[QUEUE];

  // verilator lint_off BLKSEQ
  always_ff @(posedge clk) begin
    int at;
    if (rst) begin
      started = 1;
      for (int id = 0; id < IDS; id++) begin
        read_tail[id]  = 0;
        read_head[id]  = 0;
        read_index[id] = 0;
        unanswered[id] = 0;
      end
      {announced_tail, sent_tail, write_head, write_index} = '0;
    end else if (started) begin
      if (s_axi_arvalid) check_address("AR", s_axi_araddr, s_axi_arlen, s_axi_arsize, s_axi_arburst);
      if (s_axi_awvalid) check_address("AW", s_axi_awaddr, s_axi_awlen, s_axi_awsize, s_axi_awburst);

      if (s_axi_rvalid && s_axi_rready) begin
        at = int'(s_axi_rid) * QUEUE + int'(read_head[s_axi_rid][POINTER-1:0]);
        if (read_head[s_axi_rid] == read_tail[s_axi_rid]) $error("R: nothing was read with ID %0d", s_axi_rid);
        else if (s_axi_rlast != (read_index[s_axi_rid] == 9'(read_length[at])))
          $error("R: last is %0d in beat %0d of a burst of %0d", s_axi_rlast, read_index[s_axi_rid], read_length[at] + 1);
        read_index[s_axi_rid]++;
        if (s_axi_rlast) begin
          read_index[s_axi_rid] = 0;
          read_head[s_axi_rid]++;
        end
      end
      if (s_axi_arvalid && s_axi_arready) begin
        at = int'(s_axi_arid) * QUEUE + int'(read_tail[s_axi_arid][POINTER-1:0]);
        read_length[at] = s_axi_arlen;
        read_tail[s_axi_arid]++;
      end

      if (s_axi_bvalid && s_axi_bready) begin
        if (unanswered[s_axi_bid] == 0) $error("B: nothing was written with ID %0d", s_axi_bid);
        unanswered[s_axi_bid]--;
      end
      if (s_axi_awvalid && s_axi_awready) begin
        announced[announced_tail[POINTER-1:0]] = s_axi_awlen;
        write_id[announced_tail[POINTER-1:0]] = s_axi_awid;
        announced_tail++;
      end
      if (s_axi_wvalid && s_axi_wready) begin
        write_index++;
        if (s_axi_wlast) begin
          sent[sent_tail[POINTER-1:0]] = 8'(write_index - 1);
          sent_tail++;
          write_index = 0;
        end
      end
      if (write_head != announced_tail && write_head != sent_tail) begin
        at = int'(write_head[POINTER-1:0]);
        if (announced[at] != sent[at]) $error("W: %0d beats, AW announced %0d", sent[at] + 1, announced[at] + 1);
        unanswered[write_id[at]]++;
        write_head++;
      end
    end
  end
  // verilator lint_on BLKSEQ
endmodule

// Rules of one channel's handshake.
module axi_channel_checker #(
    parameter NAME = "",
    parameter int WIDTH = 1
) (
    input logic clk,
    input logic rst,
    input logic valid,
    input logic ready,
    input logic [WIDTH-1:0] payload
);
  logic waiting = 0, was_reset = 0;
  logic [WIDTH-1:0] offered;

  always_ff @(posedge clk) begin
    waiting <= valid && !ready && !rst;
    was_reset <= rst;
    offered <= payload;
    if (waiting && !rst && !valid) $error("%s: valid was dropped before ready", NAME);
    if (waiting && !rst && valid && payload != offered) $error("%s: payload changed before it was taken", NAME);
    if (was_reset && valid) $error("%s: valid right after reset", NAME);
  end
endmodule
