package main

import (
	"bytes"
	"strings"
	"testing"

	"reveille/images"
	"reveille/images/bench"
)

func TestInitramfsFlags(t *testing.T) {
	spec, err := initramfs("", "init", "none", []string{"a:b", "c:/d:e"})
	if err != nil {
		t.Fatal(err)
	}
	want := []images.File{{Source: "a", Target: "b"}, {Source: "c", Target: "/d:e"}}
	if len(spec.Files) != 2 || spec.Files[0] != want[0] || spec.Files[1] != want[1] {
		t.Errorf("files %v", spec.Files)
	}
	for _, bad := range []string{"a", ":b", "a:"} {
		if _, err := initramfs("", "init", "none", []string{bad}); err == nil || !strings.Contains(err.Error(), "want SRC:DST") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestParsePace(t *testing.T) {
	for text, want := range map[string]bench.Pace{
		"unlimited": bench.Unlimited(), "200": bench.Limited(200), "stop:2048": bench.StopsAfter(2048),
	} {
		if got, err := parsePace(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "0", "-1", "stop:", "stop:0", "fast"} {
		if got, err := parsePace(bad); err == nil {
			t.Errorf("%q: %s", bad, got)
		}
	}
}

func TestTypeOn(t *testing.T) {
	var port bytes.Buffer
	escaped := false
	typeOn(&port, strings.NewReader("ls\r"), func() { escaped = true })
	if port.String() != "ls\r" || escaped {
		t.Errorf("typed %q, escaped %v", &port, escaped)
	}
	typeOn(&port, strings.NewReader("x\x1d"), func() { escaped = true })
	if !escaped {
		t.Error("ctrl-] did not end it")
	}
}
