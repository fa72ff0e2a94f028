package netcfg

import (
	"fmt"
	"slices"
)

// suggest saves the search for a problem that is not told.
func (d *Document) suggest(s string, words ...[]string) string {
	if d.full() {
		return ""
	}
	return Suggest(s, slices.Concat(words...))
}

// Suggest is `; did you mean "x"?` for the word nearest to s, or "" when none
// is near: at most a third of its letters may be wrong, so that a suggestion
// is a correction and not a guess.
func Suggest(s string, words []string) string {
	best, least := "", len(s)/3+1
	for _, w := range words {
		if d := distance(s, w); d < least || d == least && best == "" {
			best, least = w, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is the number of letters to insert, delete, change or swap with
// their neighbour to turn a into b (optimal string alignment). Long words are
// not compared: no key of ours is longer than 64 bytes, and the cost is a
// product of the lengths.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			d[i][j] = min(change, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
