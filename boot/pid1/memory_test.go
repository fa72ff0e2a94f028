package pid1

import (
	"testing"

	"reveille/boot/proc"
)

func TestStarved(t *testing.T) {
	for _, c := range []struct {
		exit  proc.Exit
		kills uint64
		want  string
	}{
		{proc.Exit{Code: -1, Signal: 9}, 0, ""},
		{proc.Exit{Code: -1, Signal: 9}, 2, "signal 9 (killed): the kernel was out of memory"},
		{proc.Exit{Code: -1, Signal: 11}, 1, ""},
		{proc.Exit{Code: 2}, 1, ""},
	} {
		if got := starved(c.exit, c.kills); got != c.want {
			t.Errorf("%s with %d kills: %q, want %q", c.exit, c.kills, got, c.want)
		}
	}
}
