package console

import (
	"fmt"
	"strings"
	"testing"

	"reveille/internal/synctest"
)

func TestThreshold(t *testing.T) {
	for cmdline, want := range map[string]Level{
		"quiet rdinit=/init":                     Info,
		"quiet reveille.debug rdinit=/init":      Debug,
		"reveille.debug=1":                       Debug,
		"reveille.debug reveille.debug=off":      Info,
		"reveille.debugger=1":                    Info,
		"rdinit=/init -- reveille.debug":         Info,
		`dyndbg="file x +p reveille.debug=1" ro`: Info,
	} {
		if got := Threshold(cmdline); got != want {
			t.Errorf("%q: %v, want %v", cmdline, got, want)
		}
	}
}

func TestParseShow(t *testing.T) {
	for cmdline, want := range map[string]string{
		"quiet rdinit=/init":                          "[] []",
		"reveille.show=svc/etcd":                      "[{svc/etcd info}] []",
		"reveille.show=svc/*:warn,netcfg:debug quiet": "[{svc/* warn} {netcfg debug}] []",
		"reveille.show=a reveille.show=b:never":       "[{a info} {b never}] []",
		"reveille.show=a:loud,,:info,b":               `[{b info}] [reveille.show: "a:loud" is not ORIGIN or ORIGIN:LEVEL, ignoring reveille.show: "" is not ORIGIN or ORIGIN:LEVEL, ignoring reveille.show: ":info" is not ORIGIN or ORIGIN:LEVEL, ignoring]`,
		"rdinit=/init -- reveille.show=a":             "[] []",
	} {
		shows, notes := ParseShow(cmdline)
		if got := fmt.Sprint(shows, notes); got != want {
			t.Errorf("%q: %s, want %s", cmdline, got, want)
		}
	}
	if shows, notes := ParseShow(showKey + "=" + strings.Repeat("x,", 1000)); len(shows) != maxShows || len(notes) != 1 {
		t.Errorf("%d entries, notes %q", len(shows), notes)
	}
}

func FuzzParseShow(f *testing.F) {
	f.Add("quiet reveille.show=svc/*:warn,netcfg:debug", "svc/etcd")
	f.Add(`reveille.show="a b:never",:info,x:loud -- reveille.show=c`, "a b")
	f.Fuzz(func(t *testing.T, cmdline, origin string) {
		shows, notes := ParseShow(cmdline)
		if len(shows) > maxShows || len(notes) > maxShows+1 {
			t.Fatalf("%d entries, %d notes", len(shows), len(notes))
		}
		for _, note := range notes {
			if Clean(note) != note || len(note) > 1024 {
				t.Fatalf("note %q", note)
			}
		}
		if least, named := shows.Of(origin); least > Never || !named && least != 0 {
			t.Fatalf("%q: %v, %t", origin, least, named)
		}
	})
}

// What the operator asked for goes before what init set.
func TestShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakePort(11520), Options{Threshold: Info})
		defer b.close()
		shows, _ := ParseShow("reveille.show=svc/*:warn,svc/db,netcfg:debug,noise:never")
		b.engine.Show(shows)
		for _, origin := range []string{"svc/db", "svc/web", "netcfg", "join", "noise"} {
			if strings.HasPrefix(origin, "svc/") {
				b.engine.SetThreshold(origin, Never)
			}
			for level := Debug; level <= Error; level++ {
				b.log.Append(origin, level, fmt.Sprintf("%s-%s", origin, level))
			}
		}
		b.settle()
		want := "svc/db-info svc/db-stage svc/db-warn svc/db-error svc/web-warn svc/web-error " +
			"netcfg-debug netcfg-info netcfg-stage netcfg-warn netcfg-error join-info join-stage join-warn join-error"
		var got []string
		for line := range strings.Lines(b.port.text()) {
			if f := strings.Fields(line); len(f) > 0 {
				got = append(got, f[len(f)-1])
			}
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("got  %s\nwant %s", g, want)
		}
	})
}
