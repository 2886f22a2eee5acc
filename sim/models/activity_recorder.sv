// Notes how often each part works, for simulation only.
//
// Every WINDOW cycles, counted from the start of the simulation, a line with two hexadecimal digits for each part: the
// cycles in which it worked, part 0 first. It goes to the file named by +activity0=FILE, where
// 0 is the `number` of the chiplet; nowhere without it. Every FLUSHED lines they are on disk.
module activity_recorder #(
    parameter int PARTS = 1,
    parameter int WINDOW = 64,
    parameter int FLUSHED = 32
) (
    input logic clk,
    input logic rst,
    input logic [PARTS-1:0] working,
    input logic [7:0] number
);
  // There has been a reset; it has ended. Before, nothing has a meaning, `number` neither.
  bit was_reset = 0, started = 0;
  int file = 0;
  int passed = 0;
  int unsigned lines = 0;
  byte unsigned count[PARTS];

  function automatic int opened();
    string name, format;
    format = $sformatf("activity%0d=%%s", number);
    return $value$plusargs(format, name) != 0 ? $fopen(name, "w") : 0;
  endfunction

  // verilator lint_off BLKSEQ
  always_ff @(posedge clk) begin
    if (rst) was_reset = 1;
    else if (was_reset && !started) begin
      started = 1;
      file = opened();
      for (int i = 0; i < PARTS; i++) count[i] = 0;
    end
    passed = passed + 1;
    if (file != 0) begin
      for (int i = 0; i < PARTS; i++) if (working[i]) count[i] = count[i] + 1;
      if (passed == WINDOW) begin
        for (int i = 0; i < PARTS; i++) begin
          $fwrite(file, "%02x", count[i]);
          count[i] = 0;
        end
        $fwrite(file, "\n");
        lines = lines + 1;
        // Those who watch see how far the simulation has come.
        if (lines % FLUSHED == 0) $fflush(file);
      end
    end
    if (passed == WINDOW) passed = 0;
  end
  // verilator lint_on BLKSEQ

  final if (file != 0) $fclose(file);
endmodule
