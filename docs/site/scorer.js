// How search results are ordered: guides and reference before decisions and the changelog, which mention everything.
var Scorer = {
  score: ([page, , , , score]) => (/^docs\/adr\/|^CHANGELOG/.test(page) ? score / 4 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
