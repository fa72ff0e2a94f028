package pid1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"reveille/boot/proc"
	"reveille/console"
)

// operations is what the agent may ask of init.
func (i *Init) operations() map[string]proc.Handler {
	return faults(map[string]proc.Handler{
		proc.OpStage:    proc.Handle(i.setStage),
		proc.OpStart:    proc.Handle(i.startService),
		proc.OpSignal:   proc.Handle(i.signalService),
		proc.OpList:     proc.Handle(i.list),
		proc.OpWait:     proc.Handle(i.wait),
		proc.OpExits:    proc.Handle(i.exits),
		proc.OpDrained:  proc.Handle(i.drained),
		proc.OpLog:      proc.Handle(i.readLog),
		proc.OpConsoles: proc.Handle(i.consoles),
		proc.OpCrashes:  proc.Handle(i.countCrashes),
		proc.OpRestart:  proc.Handle(i.restart),
		proc.OpKeep:     proc.Handle(i.keep),
		proc.OpKept:     proc.Handle(i.giveKept),
		proc.OpNotices:  proc.Handle(i.table.Notices),
		proc.OpTerminal: proc.Handle(i.table.Terminal),
		proc.OpType:     proc.Handle(i.typeInto),
	})
}

func (i *Init) setStage(_ context.Context, p proc.Progress) (proc.Nothing, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.progress, i.heard = p, time.Now()
	if i.note != nil {
		_, _ = fmt.Fprintf(io.NewOffsetWriter(i.note, 0), "%-64.64s", p.Stage) // memory: there is no error
	}
	return proc.Nothing{}, nil
}

// serviceOrigin names a service's lines in the log. No line of a service
// reaches a console unless reveille.show= names it: it has the log to itself,
// and the console is for what an operator needs when nothing else answers.
func serviceOrigin(name string) string { return "svc/" + name }

func (i *Init) startService(ctx context.Context, spec proc.Spec) (proc.Process, error) {
	if spec.Name == proc.AgentName {
		return proc.Process{}, errors.New("the agent is started by init alone")
	}
	origin := serviceOrigin(spec.Name)
	i.screens.SetThreshold(origin, console.Never)
	p, err := i.table.Start(ctx, spec, i.bounded(origin, spec.LogRate, spec.LogBurst))
	if err != nil && ctx.Err() != nil { // the agent that asked is dead
		i.log.Append(origin, console.Error, err.Error())
	}
	return p.Brief(), err
}

func (i *Init) signalService(_ context.Context, t proc.Target) (proc.Nothing, error) {
	return proc.Nothing{}, i.table.Signal(t.Name, t.Incarnation, t.Signal)
}

func (i *Init) typeInto(_ context.Context, in proc.Typed) (proc.Nothing, error) {
	return proc.Nothing{}, i.table.Type(in)
}

func (i *Init) list(context.Context, proc.Nothing) ([]proc.Process, error) {
	return brief(i.table.List()), nil
}

func (i *Init) exits(ctx context.Context, q proc.ExitQuery) (proc.Exits, error) {
	found, err := i.table.Exits(ctx, q.After)
	found.Rows = brief(found.Rows)
	return found, err
}

func (i *Init) drained(ctx context.Context, t proc.Target) (proc.Nothing, error) {
	return proc.Nothing{}, i.table.Drained(ctx, t.Name, t.Incarnation)
}

func brief(rows []proc.Process) []proc.Process {
	for n, p := range rows {
		rows[n] = p.Brief()
	}
	return rows
}

func (i *Init) wait(ctx context.Context, t proc.Target) (proc.Process, error) {
	return i.table.Wait(ctx, t.Name, t.Incarnation)
}

func (i *Init) consoles(context.Context, proc.Nothing) ([]proc.ConsoleStats, error) {
	rows := []proc.ConsoleStats{}
	for _, s := range i.screens.Stats() {
		rows = append(rows, proc.ConsoleStats{
			Name: s.Name, WrittenBytes: s.Written, DroppedLines: s.Dropped.Total(), Stalled: s.Stalled,
		})
	}
	return rows, nil
}

func (i *Init) countCrashes(context.Context, proc.Nothing) (proc.Crashes, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.crashes, nil
}

func (i *Init) restart(_ context.Context, r proc.Restart) (proc.Nothing, error) {
	if r.How != proc.Reboot && r.How != proc.PowerOff {
		return proc.Nothing{}, fmt.Errorf("restart the machine: unknown way %q", r.How)
	}
	i.end(r)
	return proc.Nothing{}, nil
}

func (i *Init) keep(_ context.Context, k proc.Kept) (proc.Nothing, error) {
	if len(k.Data) > proc.MaxKept {
		return proc.Nothing{}, fmt.Errorf("keep %d bytes: the limit is %d", len(k.Data), proc.MaxKept)
	}
	switch k.Slot {
	case proc.KeptConfig, proc.KeptNodeYAML, proc.KeptServices:
	default:
		return proc.Nothing{}, fmt.Errorf("keep: unknown slot %q", k.Slot)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kept[k.Slot] = slices.Clone(k.Data)
	return proc.Nothing{}, nil
}

func (i *Init) giveKept(_ context.Context, k proc.Kept) (proc.Kept, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return proc.Kept{Data: slices.Clone(i.kept[k.Slot])}, nil
}

// readLog answers one page; with Wait it holds the answer until there is one.
func (i *Init) readLog(ctx context.Context, q proc.LogQuery) (proc.LogPage, error) {
	filter := console.Filter{Origins: q.Origins}
	if q.Level != "" {
		level, ok := console.ParseLevel(q.Level)
		if !ok {
			return proc.LogPage{}, fmt.Errorf("read log: unknown level %q", q.Level)
		}
		filter.Min = level
	}
	page := i.logPage(q, filter)
	if q.Wait && len(page.Records) == 0 && page.Lost == 0 {
		f := i.log.Follow(page.Next, filter)
		defer f.Close()
		if _, _, err := f.Next(ctx, 1); err != nil {
			return proc.LogPage{}, err
		}
		page = i.logPage(q, filter)
	}
	return page, nil
}

func (i *Init) logPage(q proc.LogQuery, filter console.Filter) proc.LogPage {
	limit := min(max(q.Max, 1), proc.MaxLogPage)
	records, lost, next := i.log.Read(q.From, filter, limit)
	page := proc.LogPage{Records: []proc.LogRecord{}, Lost: lost, Next: next, End: i.log.Next()}
	size := 0
	for _, r := range records {
		if size += len(r.Text); size > proc.MaxLogBytes && len(page.Records) > 0 {
			page.Next = r.Seq
			break
		}
		page.Records = append(page.Records, proc.LogRecord{
			Seq: r.Seq, Uptime: r.Uptime, Origin: r.Origin, Level: r.Level.String(), Text: r.Text,
		})
	}
	return page
}
