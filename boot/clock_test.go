package boot

import (
	"testing"
	"time"
)

func TestDistance(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5100 * time.Millisecond: "5s", -17*time.Minute - 41*time.Second: "-17m41s", 47 * time.Hour: "47h0m0s", 139510*time.Hour + 40*time.Minute: "5812 days",
	} {
		if got := distance(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
