package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reveille/internal/synctest"
)

func testLog(limits Limits) *Log {
	return NewLog(limits, func() time.Duration { return time.Second })
}

// small limits make every bound matter within a few records.
var small = Limits{Head: 1000, Origin: 2000, Total: 5000, Origins: 4}

func TestChattyOriginEvictsOnlyItself(t *testing.T) {
	l := testLog(DefaultLimits())
	for i := range 100 {
		l.Append("netcfg", Info, fmt.Sprintf("early %d", i))
	}
	for range 100000 {
		l.Append("svc/chatty", Info, strings.Repeat("x", 100))
	}
	for origin, want := range map[string]int{"netcfg": 100, "svc/chatty": 1000} {
		n, next := 0, uint64(1)
		for {
			recs, _, after := l.Read(next, Filter{Origins: []string{origin}}, 500)
			n += len(recs)
			if after == next {
				break
			}
			next = after
		}
		if n < want {
			t.Errorf("%s: %d records kept, want at least %d", origin, n, want)
		}
	}
	if recs, _, _ := l.Read(1, Filter{}, 1); recs[0].Text != "early 0" {
		t.Errorf("the head of the boot is gone: %+v", recs)
	}
}

// Whatever is logged: memory stays in its bounds, a reader sees rising
// sequence numbers, and what it sees plus what it is told lost is everything.
func TestLogAddsUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := testLog(small)
		f := l.Follow(1, Filter{Min: Warn})
		defer f.Close()
		var seen, lost, want uint64
		take := func() {
			recs, n := f.take(rapid.IntRange(1, 5).Draw(rt, "max"))
			seen += uint64(len(recs))
			lost += n
		}
		for range rapid.IntRange(0, 200).Draw(rt, "appends") {
			level := Level(rapid.IntRange(0, 5).Draw(rt, "level"))
			origin := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(rt, "origin")
			l.Append(origin, level, strings.Repeat("y", rapid.IntRange(0, 1500).Draw(rt, "len")))
			if level >= Warn {
				want++
			}
			if rapid.IntRange(0, 9).Draw(rt, "take") == 0 {
				take()
			}
			checkBounds(rt, l)
		}
		for f.cursor < l.next {
			take()
		}
		take()
		if seen+lost != want {
			rt.Fatalf("follower saw %d and lost %d of %d", seen, lost, want)
		}
		checkRead(rt, l)
	})
}

func checkBounds(t *rapid.T, l *Log) {
	used := 0
	for origin, q := range l.origins {
		used += q.bytes
		if q.bytes > small.Origin && q.len() > 1 {
			t.Fatalf("origin %q holds %d bytes", origin, q.bytes)
		}
		size := 0
		for _, r := range q.all() {
			size += r.size()
		}
		if size != q.bytes || q.len() == 0 {
			t.Fatalf("origin %q: %d bytes counted, %d held", origin, q.bytes, size)
		}
	}
	if used != l.used || used > small.Total || l.head.bytes > small.Head || len(l.origins) > small.Origins+1 {
		t.Fatalf("used %d (counted %d), head %d, %d origins", used, l.used, l.head.bytes, len(l.origins))
	}
}

func checkRead(t *rapid.T, l *Log) {
	var seen, lost uint64
	next, last := uint64(1), uint64(0)
	for next < l.next {
		recs, n, after := l.Read(next, Filter{}, 7)
		for _, r := range recs {
			if r.Seq <= last {
				t.Fatalf("sequence %d after %d", r.Seq, last)
			}
			last = r.Seq
		}
		seen, lost = seen+uint64(len(recs)), lost+n
		if after <= next {
			t.Fatalf("read stays at %d", next)
		}
		next = after
	}
	if seen+lost != l.next-1 {
		t.Fatalf("read %d, lost %d of %d", seen, lost, l.next-1)
	}
}

// Who reads one origin is not told of what another lost.
func TestLostIsOfTheOriginsAskedFor(t *testing.T) {
	l := testLog(small)
	for i := range 500 {
		l.Append("flood", Info, fmt.Sprintf("%d %s", i, strings.Repeat("x", 50)))
		if i%100 == 0 {
			l.Append("netcfg", Info, "bond0 up")
		}
	}
	for _, c := range []struct {
		origins []string
		lossy   bool
	}{{nil, true}, {[]string{"flood"}, true}, {[]string{"netcfg"}, false}, {[]string{"netcfg", "flood"}, true}} {
		var seen, lost uint64
		for from, next := uint64(1), uint64(0); ; from = next {
			var recs []Record
			var n uint64
			recs, n, next = l.Read(from, Filter{Origins: c.origins}, 10)
			seen, lost = seen+uint64(len(recs)), lost+n
			if next <= from {
				break
			}
		}
		if lossy := lost > 0; lossy != c.lossy || lossy && seen+lost < 500 {
			t.Errorf("%v: saw %d, lost %d", c.origins, seen, lost)
		}
	}
}

func TestFollowWaitsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLog(DefaultLimits())
		l.Append("a", Info, "backlog")
		f := l.Follow(1, Filter{Origins: []string{"a"}})
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		var end error
		go func() {
			for {
				recs, _, err := f.Next(ctx, 10)
				for _, r := range recs {
					got = append(got, r.Text)
				}
				if err != nil {
					end = err
					return
				}
			}
		}()
		synctest.Wait()
		l.Append("b", Info, "not wanted")
		l.Append("a", Info, "live")
		synctest.Wait()
		cancel()
		synctest.Wait()
		f.Close()
		f.Close()
		if strings.Join(got, ",") != "backlog,live" || !errors.Is(end, context.Canceled) {
			t.Errorf("got %q, end %v", got, end)
		}
		if len(l.followers) != 0 {
			t.Error("the follower is still registered")
		}
	})
}

func FuzzLog(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 4, 5}, uint64(3), 2)
	f.Fuzz(func(t *testing.T, ops []byte, from uint64, max int) {
		l := testLog(small)
		for i := 0; i+1 < len(ops); i += 2 {
			l.Append(string('a'+rune(ops[i]%9)), Level(ops[i]), strings.Repeat("z", int(ops[i+1])*8))
		}
		recs, lost, next := l.Read(from, Filter{Min: Warn}, max)
		if next > l.next || next < min(from, l.next) && from != 0 || lost > l.next || len(recs) > maxWalk {
			t.Fatalf("read(%d, %d): %d records, lost %d, next %d of %d", from, max, len(recs), lost, next, l.next)
		}
	})
}
