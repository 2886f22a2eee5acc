// Plays a file of requests into the attribute processor and writes what comes out into another: Python stays out of
// the clock loop.
//
// A request is a line "id slot read tag", all hexadecimal. What comes out: "e <event>", "r <response>", "w <row beat>",
// payloads in hexadecimal, each kind in its order.
module trace_player #(
    parameter int ID_BITS = 32,
    parameter int SLOT_BITS = 8,
    parameter int TAG_BITS = 16,
    parameter int EVENT_BITS = 64,
    parameter int RESPONSE_BITS = 27,
    parameter int ROW_BITS = 273
) (
    input logic clk,
    input logic rst,
    input logic play,          // a file is open and is played
    input logic open,          // open the files named by the plusargs anew
    input logic [7:0] idle,    // chance of an idle cycle, in 256ths
    input logic [7:0] stall,   // chance of a stall, of each output
    input logic quiet,         // the processor does nothing
    output logic done,         // everything has been played and has come out
    output logic [31:0] cycles,  // from the first request to the last output

    output logic valid,
    input logic ready,
    output logic [ID_BITS-1:0] id,
    output logic [SLOT_BITS-1:0] slot,
    output logic read,
    output logic [TAG_BITS-1:0] tag,
    input logic event_valid,
    input logic [EVENT_BITS-1:0] event_payload,
    input logic response_valid,
    output logic response_ready,
    input logic [RESPONSE_BITS-1:0] response_payload,
    input logic row_valid,
    output logic row_ready,
    input logic [ROW_BITS-1:0] row_payload
);
  localparam int QUIET = 8;

  string requests, results;
  int from = 0, into = 0, got;
  logic over;
  int quiet_cycles;
  logic [31:0] next_id, next_slot, next_tag, counting;
  logic next_read;

  assign done = over && !valid && quiet_cycles == QUIET;

  // verilator lint_off BLKSEQ
  bit alive = 0;  // there has been a reset; before it, nothing has a meaning

  always_ff @(posedge clk) begin
    if (rst) alive = 1;
    else if (alive && open) begin
      if (from != 0) $fclose(from);
      if (into != 0) $fclose(into);
      if (!$value$plusargs("trace_requests=%s", requests)) $error("no +trace_requests");
      if (!$value$plusargs("trace_results=%s", results)) $error("no +trace_results");
      from = $fopen(requests, "r");
      into = $fopen(results, "w");
      if (from == 0 || into == 0) $error("cannot open %s or %s", requests, results);
    end
    if (rst || open) begin
      valid <= 0;
      over <= 0;
      response_ready <= 0;
      row_ready <= 0;
      quiet_cycles <= 0;
      cycles <= 0;
      counting <= 0;
    end else begin
      if (alive && play) begin
        counting <= counting + 1;
        if (event_valid) $fwrite(into, "e %h\n", event_payload);
        if (response_valid && response_ready) $fwrite(into, "r %h\n", response_payload);
        if (row_valid && row_ready) $fwrite(into, "w %h\n", row_payload);
        if (event_valid || response_valid || row_valid || valid) cycles <= counting;
        if ((!valid || ready) && !over) begin
          if ($urandom_range(255) < int'(idle)) valid <= 0;
          else begin
            got = $fscanf(from, "%h %h %h %h\n", next_id, next_slot, next_read, next_tag);
            valid <= got == 4;
            over  <= got != 4;
            id    <= next_id[ID_BITS-1:0];
            slot  <= next_slot[SLOT_BITS-1:0];
            read  <= next_read;
            tag   <= next_tag[TAG_BITS-1:0];
          end
        end else if (ready) valid <= 0;
        response_ready <= $urandom_range(255) >= int'(stall);
        row_ready <= $urandom_range(255) >= int'(stall);
        if (over && !valid && quiet && !response_valid && !row_valid) begin
          if (quiet_cycles != QUIET) quiet_cycles <= quiet_cycles + 1;
          if (quiet_cycles == QUIET - 1) $fflush(into);
        end else quiet_cycles <= 0;
      end else begin
        valid <= 0;
        response_ready <= 0;
        row_ready <= 0;
      end
    end
  end
  // verilator lint_on BLKSEQ
endmodule
