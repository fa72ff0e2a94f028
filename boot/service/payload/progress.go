package payload

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// tellEvery is how often a node says what it waits for.
const tellEvery = 10 * time.Second

// progress is how far the unpacking of a payload is, by what was read of its
// archives.
type progress struct {
	name        string
	total, read atomic.Int64 // bytes
}

// of counts what is read of one archive.
func (p *progress) of(r io.Reader) io.Reader { return counted{r, &p.read} }

type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// tell says how far it is, again and again until end is called: a disk that
// hangs lets nobody else say so.
func (p *progress) tell(log *slog.Logger) (end func()) {
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		ticks := time.NewTicker(tellEvery)
		defer ticks.Stop()
		begun, last := time.Now(), int64(0)
		for {
			select {
			case <-done:
				return
			case now := <-ticks.C:
				read := p.read.Load()
				if text := p.after(now.Sub(begun)); read == last {
					log.Warn(fmt.Sprintf("%s, none of it in the last %s", text, tellEvery))
				} else {
					log.Info(text)
				}
				last = read
			}
		}
	})
	return func() {
		close(done)
		telling.Wait()
	}
}

func (p *progress) after(age time.Duration) string {
	const mib = 1 << 20
	return fmt.Sprintf("payload %s: unpacking for %s, %.1f of %.1f MiB read", p.name, age.Round(time.Second), float64(p.read.Load())/mib, float64(p.total.Load())/mib)
}
