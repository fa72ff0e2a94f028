package pid1

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"reveille/boot/crash"
	"reveille/boot/proc"
	"reveille/console"
)

// maxPending is how many records wait for the cluster at most; the oldest
// gives way. It is what the disk holds, and 2 MiB in the worst case.
const maxPending = 8

// maxServices is how many records of services wait beside those, in memory: a
// node that starts its services before it has met its controller may see many
// of them fail. They are small; 4 MiB in the worst case.
const maxServices = 16

// recorder keeps crash records until the cluster has them. All it does with a
// disk is done by one goroutine (run), which may hang there for ever; everybody
// else works on memory.
type recorder struct {
	say    func(console.Level, string, ...any)
	bootID func() string
	disk   recordDisk
	judged func(crash.Verdict) // told of the boot before this one, in run's goroutine

	wake chan struct{}  // something to write, or a disk to look at
	ends chan endOfBoot // the ordered stop

	mu      sync.Mutex
	pending []*pendingRecord // oldest first
	gone    []string         // acknowledged or pushed out, and perhaps still on the disk
	doomed  string           // why the watchdog is not fed, empty while it is
	verdict *crash.Verdict   // on the boot before this one; nil until there is one
}

type pendingRecord struct {
	crash.Stored
	saved bool // on the disk
	pmsg  bool // in memory that survives a warm reset, or there is no such
}

// endOfBoot asks for the last entry of the journal.
type endOfBoot struct {
	why  proc.Restart
	done chan struct{}
}

func newRecorder(bootID func() string, disk recordDisk, say func(console.Level, string, ...any)) *recorder {
	return &recorder{
		say: say, bootID: bootID, disk: disk, judged: func(crash.Verdict) {},
		wake: make(chan struct{}, 1), ends: make(chan endOfBoot, 1),
	}
}

// recordOf makes a record of a crash, with the end of the log at that time.
func recordOf(kind crash.Kind, c console.CrashReport, log []byte) crash.Record {
	f := c.Facts
	host, _ := os.Hostname() // the agent sets it; none is none
	return crash.Record{
		Kind: kind, BootID: bootID(), Node: host, Build: f.Build,
		Incarnation: uint64(f.Incarnation), Stage: f.Stage, Uptime: f.Uptime, Ran: f.Ran, Time: time.Now().UTC(),
		WaitStatus: f.WaitStatus, Reason: c.Reason, Frame: c.Frame, Summary: c.Summary,
		Trace: []byte(c.Trace), Written: c.Written, Log: log,
	}
}

// record keeps a crash of the agent. It waits for nothing but memory.
func (i *Init) record(c console.CrashReport) {
	i.records.add(recordOf(crash.Agent, c, logTail(i.log)).Encode())
}

// tailRecords and tailBytes bound the log in a record: what happened in the
// last minutes, and no more than the record takes.
const (
	tailRecords = 1000
	tailBytes   = 64 << 10
)

// logTail is the end of the log, a line a record, without what is a record of
// its own (crash texts) and without secrets.
func logTail(log *console.Log) []byte {
	from := uint64(1)
	if next := log.Next(); next > tailRecords {
		from = next - tailRecords
	}
	records, _, _ := log.Read(from, console.Filter{}, tailRecords)
	var lines []string
	size := 0
	for _, r := range slices.Backward(records) {
		if r.Origin == console.CrashOrigin {
			continue
		}
		line := string(appendLine(nil, r))
		if size += len(line); size > tailBytes {
			break
		}
		lines = append(lines, line)
	}
	slices.Reverse(lines)
	return crash.Redact([]byte(strings.Join(lines, "")))
}

// appendLine appends a record as the log in a crash record has it: as
// "[%9.3f] %-12s  %c %s\n" would, in an eighth of the time: lastLog does it to
// every record.
func appendLine(b []byte, r console.Record) []byte {
	const blanks = "            "
	var number [24]byte
	uptime := strconv.AppendFloat(number[:0], r.Uptime.Seconds(), 'f', 3, 64)
	b = append(b, '[')
	b = append(b, blanks[:max(9-len(uptime), 0)]...)
	b = append(b, uptime...)
	b = append(b, "] "...)
	b = append(b, r.Origin...)
	b = append(b, blanks[:max(len(blanks)-len(r.Origin), 0)]...)
	b = append(b, ' ', ' ', r.Level.Letter(), ' ')
	b = append(b, r.Text...)
	return append(b, '\n')
}

func (r *recorder) poke() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// doom puts on record why the boot is left to the watchdog, or, empty, that it
// is not: not every watchdog can tell, and none knows why.
func (r *recorder) doom(why string) {
	r.mu.Lock()
	changed := r.doomed != why
	r.doomed = why
	r.mu.Unlock()
	if changed {
		r.poke()
	}
}

// add keeps a record in memory and has it written.
func (r *recorder) add(raw []byte) {
	st, err := crash.Decode(raw)
	if err != nil {
		r.say(console.Error, "keep crash record: %v", err) // cannot be: just encoded
		return
	}
	r.mu.Lock()
	r.insert(&pendingRecord{Stored: st})
	r.mu.Unlock()
	r.poke()
}

// insert appends a record that is not there yet; the oldest gives way. Called
// with the lock held.
func (r *recorder) insert(p *pendingRecord) {
	if r.find(p.ID) != nil {
		return
	}
	r.pending = append(r.pending, p)
	limit := maxPending
	if p.Kind == crash.Service {
		limit = maxServices
	}
	if same := r.kindred(p); len(same) > limit {
		r.drop(same[0].ID)
	}
}

// kindred are the records that share a bound with p, oldest first: services
// must not push out a crash. Called with the lock held.
func (r *recorder) kindred(p *pendingRecord) (all []*pendingRecord) {
	for _, o := range r.pending {
		if (o.Kind == crash.Service) == (p.Kind == crash.Service) {
			all = append(all, o)
		}
	}
	return all
}

// drop forgets a record, here and, when run comes to it, on the disk. Called
// with the lock held.
func (r *recorder) drop(id string) {
	if p := r.find(id); p != nil && p.saved {
		r.gone = append(r.gone, id)
	}
	r.pending = slices.DeleteFunc(r.pending, func(p *pendingRecord) bool { return p.ID == id })
}

func (r *recorder) find(id string) *pendingRecord {
	for _, p := range r.pending {
		if p.ID == id {
			return p
		}
	}
	return nil
}

// operations is what the agent may ask of the recorder.
func (r *recorder) operations() map[string]proc.Handler {
	return map[string]proc.Handler{
		proc.OpMounted: proc.Handle(func(context.Context, proc.Nothing) (proc.Nothing, error) {
			r.poke()
			return proc.Nothing{}, nil
		}),
		proc.OpRecords:   proc.Handle(r.list),
		proc.OpRecord:    proc.Handle(r.give),
		proc.OpForget:    proc.Handle(r.forget),
		proc.OpAddRecord: proc.Handle(r.take),
		proc.OpLastBoot:  proc.Handle(r.lastBoot),
	}
}

// withRecords adds the recorder's operations to init's own.
func (i *Init) withRecords(ops map[string]proc.Handler) map[string]proc.Handler {
	maps.Copy(ops, i.records.operations())
	return ops
}

func (r *recorder) list(context.Context, proc.Nothing) ([]proc.RecordID, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := []proc.RecordID{}
	for _, p := range r.pending {
		ids = append(ids, proc.RecordID{ID: p.ID})
	}
	return ids, nil
}

func (r *recorder) give(_ context.Context, id proc.RecordID) (proc.RawRecord, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.find(id.ID)
	if p == nil {
		return proc.RawRecord{}, fmt.Errorf("no crash record %q", id.ID)
	}
	return proc.RawRecord{Data: p.Raw}, nil
}

// take keeps a record that the agent made: only of a service can it know more
// than init.
func (r *recorder) take(_ context.Context, raw proc.RawRecord) (proc.Nothing, error) {
	st, err := crash.Decode(raw.Data)
	if err != nil {
		return proc.Nothing{}, err
	}
	if st.Kind != crash.Service {
		return proc.Nothing{}, fmt.Errorf("keep record: of kind %q, want %q", st.Kind, crash.Service)
	}
	r.add(st.Raw)
	return proc.Nothing{}, nil
}

func (r *recorder) forget(_ context.Context, id proc.RecordID) (proc.Nothing, error) {
	r.mu.Lock()
	r.drop(id.ID)
	r.mu.Unlock()
	r.poke()
	return proc.Nothing{}, nil
}

// endJournal bounds the wait for a disk at an ordered stop.
const endJournal = time.Second

// end puts the ordered end of this boot on record, if the disk takes it in time.
func (r *recorder) end(why proc.Restart) {
	e := endOfBoot{why, make(chan struct{})}
	select {
	case r.ends <- e:
	default:
		return // a second end: the first counts
	}
	select {
	case <-e.done:
	case <-time.After(endJournal):
	}
}

// run writes what is to be written, until the ordered stop.
func (r *recorder) run() {
	for {
		timer := time.NewTimer(r.work())
		select {
		case <-r.wake:
		case <-timer.C:
		case e := <-r.ends:
			r.work()
			r.disk.endBoot(r, e.why)
			close(e.done)
			return
		}
		timer.Stop()
	}
}
