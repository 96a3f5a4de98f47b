# SPDX-License-Identifier: Apache-2.0
# Rows in which every two values of different factors meet at least once.  In: a factor a line, its values as words.  Out: a row
# a line, a value of each factor.  Greedy: each row begins with a pair that has not met and takes, factor by factor, the value that
# makes most new pairs.
function open_pairs(f, v, g, n) { # of value v of f with the values chosen so far
  for (g in row) n += g != f && !((f < g ? f SUBSEP v SUBSEP g SUBSEP row[g] : g SUBSEP row[g] SUBSEP f SUBSEP v) in met)
  return n
}
function take(f, v, g) {
  for (g in row) met[f < g ? f SUBSEP v SUBSEP g SUBSEP row[g] : g SUBSEP row[g] SUBSEP f SUBSEP v] = 1
  row[f] = v
}
function begin(f, g, a, b) { # with a pair that has not met; false: there is none
  for (f = 1; f <= NR; f++)
    for (g = f + 1; g <= NR; g++)
      for (a = 1; a <= many[f]; a++)
        for (b = 1; b <= many[g]; b++)
          if (!((f SUBSEP a SUBSEP g SUBSEP b) in met)) {
            split("", row)
            take(f, a)
            take(g, b)
            return 1
          }
  return 0
}
{ many[NR] = split($0, words); for (i in words) value[NR, i] = words[i] }
END {
  while (begin()) {
    for (f = 1; f <= NR; f++) {
      if (f in row) continue
      best = 1
      for (v = 2; v <= many[f]; v++) if (open_pairs(f, v) > open_pairs(f, best)) best = v
      take(f, best)
    }
    line = ""
    for (f = 1; f <= NR; f++) line = line (f > 1 ? " " : "") value[f, row[f]]
    print line
  }
}
