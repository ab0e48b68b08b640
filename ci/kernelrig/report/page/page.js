"use strict";
// Shows what a mark of a chart stands for, where the pointer is. All of it is in the tables, too.
(() => {
  const tip = document.getElementById("tip");
  const hide = () => { tip.hidden = true; };
  document.addEventListener("pointermove", (event) => {
    const mark = event.target instanceof Element && event.target.closest("[data-said]");
    if (!mark) return hide();
    tip.textContent = mark.getAttribute("data-said");
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const below = event.clientY + 18 + box.height < innerHeight;
    const y = below ? event.clientY + 18 : event.clientY - box.height - 12;
    tip.style.transform = `translate(${Math.max(8, x)}px, ${Math.max(8, y)}px)`;
  });
  document.addEventListener("pointerleave", hide);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
})();
