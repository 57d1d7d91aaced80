// The comparison of two runs: both timelines of a scenario beside each other, at the same time.

const loadPair = async (details) => {
  const target = details.querySelector("[data-pair]");
  if (target.childElementCount) return;
  const index = target.dataset.pair;
  const players = [];
  for (const side of ["a", "b"]) {
    const data = document.getElementById(`${side}-${index}`);
    const figure = make("figure", {}, make("figcaption", { text: `Run ${side.toUpperCase()}` }));
    if (data) {
      const player = new Player(await decodeTimeline(data.textContent));
      players.push(player);
      figure.append(player.element);
    } else {
      figure.append(make("p", { text: "This run recorded no writes: run it with --reporter html=FILE." }));
    }
    target.append(figure);
  }
  if (players.length < 2) return;
  // The other player follows to the same time; a follower does not lead back.
  let isFollowing = false;
  const follow = (leader, follower) => (count) => {
    if (isFollowing) return;
    isFollowing = true;
    const frame = leader.timeline.frames[count - 1];
    follower.show(frame ? follower.timeline.countAt(frame.t) : 0);
    isFollowing = false;
  };
  players[0].onShow = follow(players[0], players[1]);
  players[1].onShow = follow(players[1], players[0]);
};

for (const details of document.querySelectorAll("details.difference")) {
  details.addEventListener("toggle", () => details.open && loadPair(details));
  if (details.open) loadPair(details);
}
