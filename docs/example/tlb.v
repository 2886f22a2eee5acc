// Somebody's design with a block of Atoll inside: a fully associative translation buffer with 30 entries, of which the
// one leaves that was not used for longest. The block holds the pages and finds the next to leave; what is here asks it,
// one page at a time, and keeps the frames.
module tlb (
    input             clk,
    input             rst,
    // Asked: a page. `frame` is what it is translated to if it is not known yet.
    input             ask_valid,
    output            ask_ready,
    input      [19:0] ask_page,
    input      [11:0] ask_frame,
    // Told, for one cycle, once for every page.
    output reg        told,
    output reg        told_hit,
    output reg [11:0] told_frame
);
  localparam IDLE = 2'd0, LOOK = 2'd1, DECIDE = 2'd2;

  reg [ 1:0] state;
  reg        looked;  // the first of the two cycles that a look-up takes has passed
  reg [19:0] page;
  reg [11:0] frame;
  reg [31:0] now;  // the replacement key: the smallest leaves, so the time of the last use is LRU
  reg [11:0] frames[0:31];

  wire hit, room, leaves;
  wire [4:0] way, place;
  wire [19:0] leaver;
  wire [31:0] key;

  wire decides = (state == DECIDE) & (hit | room);
  wire [4:0] entry = hit ? way : place;

  attributes_attribute_cache pages (
      .clk        (clk),
      .rst        (rst),
      .run        (state == LOOK),
      .id         (page),
      .hit        (hit),
      .way        (way),
      .key        (key),
      .room       (room),
      .place      (place),
      .leaves     (leaves),
      .leaver     (leaver),
      .write      (decides),
      .write_way  (entry),
      .write_valid(1'b1),
      .write_id   (page),
      .write_key  (now),
      .flush      (1'b0)
  );

  assign ask_ready = state == IDLE;

  always @(posedge clk) begin
    told <= decides;
    case (state)
      IDLE:
      if (ask_valid) begin
        page   <= ask_page;
        frame  <= ask_frame;
        looked <= 1'b0;
        state  <= LOOK;
      end
      LOOK: begin
        looked <= 1'b1;
        if (looked) state <= DECIDE;
      end
      DECIDE:
      if (decides) begin
        told_hit   <= hit;
        told_frame <= hit ? frames[entry] : frame;
        if (!hit) frames[entry] <= frame;
        now   <= now + 1'b1;
        state <= IDLE;
      end
      default: state <= IDLE;
    endcase
    if (rst) begin
      state <= IDLE;
      told  <= 1'b0;
      now   <= 32'd0;
    end
  end

  // What a translation buffer has no use for: who has left, and when it was used last.
  wire unused = &{1'b0, leaves, leaver, key};
endmodule
