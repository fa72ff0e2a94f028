package payload

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"reveille/internal/synctest"
)

// TestProgress: a payload that takes long says how far it is, and one that
// stands still that it does.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		p := &progress{name: "kube"}
		p.total.Store(80 << 20)
		end := p.tell(slog.New(slog.NewTextHandler(&said, nil)))
		_, _ = io.Copy(io.Discard, p.of(bytes.NewReader(make([]byte, 20<<20)))) // memory
		time.Sleep(25 * time.Second)
		end()
		time.Sleep(time.Minute)
		var got []string
		for line := range strings.Lines(said.String()) {
			_, line, _ = strings.Cut(line, "level=")
			got = append(got, strings.TrimSpace(line))
		}
		want := `INFO msg="payload kube: unpacking for 10s, 20.0 of 80.0 MiB read"
WARN msg="payload kube: unpacking for 20s, 20.0 of 80.0 MiB read, none of it in the last 10s"`
		if strings.Join(got, "\n") != want {
			t.Errorf("said:\n%s", strings.Join(got, "\n"))
		}
	})
}
