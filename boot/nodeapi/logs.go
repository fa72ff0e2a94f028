package nodeapi

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"reveille/boot/cluster/clusterv1"
)

// Record is one record of the node's log.
type Record struct {
	Seq    uint64
	Uptime time.Duration // since the node's boot
	Origin string
	Level  string // debug, info, stage, warn, error, crash
	Text   string
}

// Query asks for a page of the log.
type Query struct {
	From    uint64   // the first sequence number wanted
	Origins []string // empty: all
	Level   string   // the least one; empty: all
	Max     int      // records in a page
	Wait    bool     // wait for a record rather than return an empty page
}

// Page is a part of the log.
type Page struct {
	Records []Record // in order of Seq; empty when there is none yet
	Lost    uint64   // wanted records before these that the ring had already dropped
	Next    uint64   // where to read on; equal to From when nothing was there to be read
	End     uint64   // one past the newest record of the whole log; zero when not known
}

// LogSource is the log, which init keeps.
type LogSource interface {
	// Read returns the next page. With Wait it returns as soon as there is a
	// record, or when ctx ends.
	Read(ctx context.Context, q Query) (Page, error)
}

const (
	// pageSize is what is read at a time, some 16 KiB of text.
	pageSize = 128
	// maxTail bounds what Tail makes us hold: a few MiB of text at most.
	maxTail = 10_000
)

func handlerOptions() connect.HandlerOption { return connect.WithReadMaxBytes(maxRequest) }

// Logs implements clusterv1connect.NodeServiceHandler. A follower that reads
// slower than the log grows loses records, and is told how many.
func (s *Server) Logs(ctx context.Context, req *clusterv1.LogsRequest, stream *connect.ServerStream[clusterv1.LogRecord]) error {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("stream log: %d others are reading it, try again later", maxStreams))
	}
	defer s.streams.Add(-1)
	f := &follower{logs: s.cfg.Logs, send: stream.Send, query: Query{Origins: req.GetOrigins(), Level: req.GetLevel(), Max: pageSize}}
	if err := f.run(ctx, req); err != nil {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("stream log: %w", err))
	}
	return nil
}

// follower is one reader of the log.
type follower struct {
	logs  LogSource
	query Query
	send  func(*clusterv1.LogRecord) error
	lost  uint64 // not yet told
}

func (f *follower) run(ctx context.Context, req *clusterv1.LogsRequest) error {
	if err := f.sendBacklog(ctx, req.GetTail()); err != nil || !req.GetFollow() {
		return err
	}
	f.query.Wait = true
	for {
		page, err := f.read(ctx)
		if err != nil {
			return err
		}
		if err := f.sendAll(page.Records); err != nil {
			return err
		}
	}
}

func (f *follower) sendBacklog(ctx context.Context, tail uint64) error {
	if tail > 0 {
		return f.tail(ctx, int(min(tail, maxTail)))
	}
	return f.backlog(ctx, f.sendAll)
}

// backlog hands over what the log has now. A log that grows faster than its
// reader reads has no end of its own, so the end is where it was at the start.
func (f *follower) backlog(ctx context.Context, take func([]Record) error) error {
	var end uint64
	for {
		from := f.query.From
		page, err := f.read(ctx)
		if err != nil {
			return err
		}
		if err := take(page.Records); err != nil {
			return err
		}
		if end == 0 {
			end = page.End
		}
		if f.query.From == from || end > 0 && f.query.From >= end {
			return nil
		}
	}
}

// tail sends the last n of what the log has. What came before them is left out
// by wish, and not lost.
func (f *follower) tail(ctx context.Context, n int) error {
	var last []Record
	err := f.backlog(ctx, func(records []Record) error {
		last = append(last, records...)
		last = last[max(0, len(last)-n):]
		return nil
	})
	if err != nil {
		return err
	}
	f.lost = 0
	return f.sendAll(last)
}

func (f *follower) read(ctx context.Context) (Page, error) {
	page, err := f.logs.Read(ctx, f.query)
	f.query.From = page.Next
	f.lost += page.Lost
	return page, err
}

func (f *follower) sendAll(records []Record) error {
	for _, r := range records {
		err := f.send(&clusterv1.LogRecord{
			Seq:    r.Seq,
			Uptime: durationpb.New(r.Uptime),
			Origin: r.Origin,
			Level:  r.Level,
			Text:   r.Text,
			Lost:   f.lost,
		})
		if err != nil {
			return err
		}
		f.lost = 0
	}
	return nil
}
