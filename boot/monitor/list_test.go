package monitor

import (
	"slices"
	"testing"

	"reveille/boot/service"
)

func TestParseList(t *testing.T) {
	for body, want := range map[string]string{
		`{"server":"s","instances":[]}`: "",
		`{"server":"s","generation":4,"instances":[{"id":"b"},{"id":"a","state":"x y"}],"z":1}`: "",
		``:                                 "not the JSON that an identity probe wants",
		`[]`:                               "not the JSON that an identity probe wants",
		"\x00\xff{\"instances\": 7":        "not the JSON that an identity probe wants",
		`{"server":"s"}`:                   `no list of "instances"`,
		`{"server":"s","instances":null}`:  `no list of "instances"`,
		`{"instances":[]}`:                 `no name in "server"`,
		`{"server":"a\nb","instances":[]}`: `no name in "server"`,
		`{"server":"s","instances":[{}]}`:  "an instance without a usable id or state",
		`{"server":"s","instances":[{"id":"a","generation":-1}]}`: "not the JSON that an identity probe wants",
		`{"server":"s","instances":[{"id":"a"},{"id":"a"}]}`:      "instance a is listed twice",
	} {
		_, err := parseList([]byte(body))
		if got := text(err); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestUnderstand(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		want   kind
		text   string
	}{
		{200, `{"server":"s","instances":[]}`, well, ""},
		{200, `{`, unclear, "not the JSON that an identity probe wants"},
		{204, ``, unclear, "204 No Content"},
		{302, ``, unclear, "302 Found"},
		{404, ``, notFound, "404 Not Found"},
		{410, ``, noneHere, "410 Gone, no instance"},
		{424, `anything`, noneHere, "424 Failed Dependency, no instance"},
		{500, `{"error_code":"NoInstance","message":"x"}`, noneHere, "500 Internal Server Error, no instance"},
		{500, `{"error_code":"Internal","message":"server not initialized (no instance)"}`, unclear, "500 Internal Server Error"},
		{503, ``, unclear, "503 Service Unavailable"},
		{999, ``, unclear, "999"},
	} {
		if a := understand(tc.status, []byte(tc.body)); a.kind != tc.want || a.text != tc.text {
			t.Errorf("%d %s: %+v", tc.status, tc.body, a)
		}
	}
}

// FuzzUnderstand: whatever a service answers, it is one kind of answer, fit for
// a log line, and a list of it can be searched.
func FuzzUnderstand(f *testing.F) {
	for _, seed := range []string{
		`{"server":"s","generation":4,"instances":[{"id":"b","generation":2,"state":"running"},{"id":"a"}]}`,
		`{"server":"s","instances":[{"id":"a"},{"id":"a"}]}`, `{"error_code":"NoInstance"}`, "\x00\xff", `{"server":"\u202e","instances":[]}`,
	} {
		f.Add(200, []byte(seed))
		f.Add(424, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		a := understand(status, body)
		if (a.list != nil) != (a.kind == well) {
			t.Fatalf("%+v", a)
		}
		if a.list == nil {
			if clip(a.text) != a.text && len(a.text) <= maxWord {
				t.Fatalf("%q", a.text)
			}
			return
		}
		if !word(a.list.Server) {
			t.Fatalf("server %q", a.list.Server)
		}
		for _, i := range a.list.Instances {
			if found, ok := a.list.find(i.ID); !ok || found != i || !word(i.ID) {
				t.Fatalf("%q is not found", i.ID)
			}
		}
		j := newJudge(Target{Service: service.Service{Alive: identity()}})
		for range 2 {
			if o := j.alive(0, a, runs); o.verdict != service.Alive || !slices.Equal(j.known, a.list.Instances) {
				t.Fatalf("the same list twice: %+v", o)
			}
		}
	})
}
