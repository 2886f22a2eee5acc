// The other end of the system's serial port, for simulation only: sends the job of +job=FILE when the firmware asks for
// it with ENQ, keeps what the firmware says in the file of +said=FILE and prints it, and ends with EOT and a status.
module serial_host (
    input  logic       clk,
    input  logic       rst,
    output logic [7:0] sink_data,
    output logic       sink_valid,
    input  logic       sink_ready,
    input  logic [7:0] source_data,
    input  logic       source_valid,
    output logic       source_ready,
    output logic       finished,
    output logic [7:0] status,
    output logic [63:0] cycles
);
  localparam logic [7:0] ENQ = 8'h05, EOT = 8'h04, CR = 8'h0d;

  int job, said, next;
  string name;
  bit opened = 0, sending = 0, ending = 0;

  assign source_ready = 1;

  // verilator lint_off BLKSEQ
  always_ff @(posedge clk) begin
    if (rst) begin
      {sink_valid, finished, status, sink_data} <= '0;
      cycles <= 0;
    end else begin
      cycles <= cycles + 1;
      if (!opened) begin
        opened = 1;
        job = $value$plusargs("job=%s", name) != 0 ? $fopen(name, "rb") : 0;
        said = $value$plusargs("said=%s", name) != 0 ? $fopen(name, "wb") : 0;
      end
      if (source_valid && !finished) begin
        if (ending) begin
          finished <= 1;
          status <= source_data;
          if (said != 0) $fclose(said);
        end else if (source_data == EOT) ending = 1;
        else if (source_data == ENQ) sending = job != 0;
        else if (source_data != CR) begin
          if (said != 0) $fwrite(said, "%c", source_data);
          $write("%c", source_data);
          if (source_data == 8'h0a) $fflush();
        end
      end
      if (sink_valid && sink_ready) sink_valid <= 0;
      if (sending && (!sink_valid || sink_ready)) begin
        next = $fgetc(job);
        if (next < 0) sending = 0;
        else begin
          sink_valid <= 1;
          sink_data <= 8'(next);
        end
      end
    end
  end
  // verilator lint_on BLKSEQ
endmodule
