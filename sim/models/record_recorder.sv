// Notes the records that a locator hands out, for simulation only.
//
// Every beat that is taken is a line: the number of its stream, and 65 bits in hexadecimal digits, the highest of them
// set in the last beat of a record. Lines go to the file named by +records0=FILE, where 0 is the `number` of
// the chiplet; nowhere without it.
module record_recorder #(
    parameter int STREAMS = 1
) (
    input logic clk,
    input logic rst,
    input logic [STREAMS-1:0] valid,
    input logic [STREAMS-1:0] ready,
    input logic [STREAMS-1:0][64:0] payload,
    input logic [7:0] number
);
  // There has been a reset; it has ended. Before, nothing has a meaning, `number` neither.
  bit was_reset = 0, started = 0;
  int file = 0;

  function automatic int opened();
    string name, format;
    format = $sformatf("records%0d=%%s", number);
    return $value$plusargs(format, name) != 0 ? $fopen(name, "w") : 0;
  endfunction

  // verilator lint_off BLKSEQ
  always_ff @(posedge clk) begin
    if (rst) was_reset = 1;
    else if (was_reset && !started) begin
      started = 1;
      file = opened();
    end
    if (file != 0 && !rst && (valid & ready) != 0)
      for (int i = 0; i < STREAMS; i++) if (valid[i] && ready[i]) $fwrite(file, "%0d %017x\n", i, payload[i]);
  end
  // verilator lint_on BLKSEQ

  final if (file != 0) $fclose(file);
endmodule
