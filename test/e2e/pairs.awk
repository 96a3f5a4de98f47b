# SPDX-License-Identifier: Apache-2.0
# Rows in which every two values of different factors meet at least once.  In: a factor a line, its values as words.  Out: a row
# a line, a value of each factor.  Greedy: each row begins with a pair that has not met and takes, factor by factor, the value that
# makes most new pairs; factors of many values first, since no fewer rows can do than the two largest have pairs.
function pair(f, v, g, w) { return f < g ? f SUBSEP v SUBSEP g SUBSEP w : g SUBSEP w SUBSEP f SUBSEP v }
function open_pairs(f, v, g, n) { # of value v of f with the values chosen so far
  for (g in row) n += g != f && !(pair(f, v, g, row[g]) in met)
  return n
}
function take(f, v, g) {
  for (g in row) met[pair(f, v, g, row[g])] = 1
  row[f] = v
}
function begin(i, j, f, g, a, b) { # with a pair that has not met; false: there is none
  for (i = 1; i <= NR; i++)
    for (j = i + 1; j <= NR; j++) {
      f = order[i]
      g = order[j]
      for (a = 1; a <= many[f]; a++)
        for (b = 1; b <= many[g]; b++)
          if (!(pair(f, a, g, b) in met)) {
            split("", row)
            take(f, a)
            take(g, b)
            return 1
          }
    }
  return 0
}
{
  many[NR] = split($0, words)
  for (i in words) value[NR, i] = words[i]
  for (i = NR; i > 1 && many[order[i - 1]] < many[NR]; i--) order[i] = order[i - 1]
  order[i] = NR
}
END {
  while (begin()) {
    for (i = 1; i <= NR; i++) {
      f = order[i]
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
