package boot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"reveille/boot/crash"
	"reveille/boot/join"
)

// stateMounted has init look at the state partition now: it keeps the crash
// records, and says how the boot before this one ended.
func (n *Node) stateMounted(ctx context.Context) {
	_ = n.init.Mounted(ctx) // an init that does not answer looks by itself, later
}

const (
	// newRecords is how often a member asks init for records: those of agents
	// before this one are there when it joins, others come in rarely.
	newRecords = 15 * time.Second
	// uploadAgain is how long a cluster that did not take a record has.
	uploadAgain = 30 * time.Second
)

// sendRecords takes crash records to the cluster, the oldest first. init
// forgets one when the cluster has answered that it is stored, so whatever is
// cut off here is sent again; the cluster knows a record by its content.
func (n *Node) sendRecords(ctx context.Context) error {
	s := sender{node: n, refused: map[string]bool{}}
	for {
		pause := newRecords
		if err := s.sendAll(ctx); err != nil {
			pause = uploadAgain
			if text := err.Error(); text != s.complaint {
				n.logger("bundle").Warn(fmt.Sprintf("%s; next try in %s", text, pause))
				s.complaint = text
			}
		} else {
			s.complaint = ""
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-n.recorded:
		case <-time.After(pause):
		}
	}
}

// haveRecords has them sent at once.
func (n *Node) haveRecords() {
	select {
	case n.recorded <- struct{}{}:
	default: // it will be looked for anyway
	}
}

type sender struct {
	node      *Node
	refused   map[string]bool // records that the cluster will never take
	complaint string          // so that it is said once
}

func (s *sender) sendAll(ctx context.Context) error {
	ids, err := s.node.init.Records(ctx)
	if err != nil {
		return fmt.Errorf("ask init for crash records: %w", err)
	}
	for _, id := range ids {
		if s.refused[id.ID] {
			continue
		}
		if err := s.send(ctx, id.ID); err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) send(ctx context.Context, id string) error {
	log := s.node.logger("bundle")
	raw, err := s.node.init.Record(ctx, id)
	if err != nil {
		return fmt.Errorf("ask init for crash record %s: %w", id, err)
	}
	record, _, err := crash.Parse(raw)
	if err != nil {
		return fmt.Errorf("read crash record %s: %w", id, err)
	}
	err = s.node.member.UploadBundle(ctx, raw)
	var refused *join.Refused
	if errors.As(err, &refused) {
		s.refused[id] = true
		log.Error(fmt.Sprintf("crash record %s stays here: %v", id, err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("send crash record %s: %w", id, err)
	}
	log.Info(fmt.Sprintf("crash record %s is at the cluster: %s", id, record.Line()))
	if err := s.node.init.Forget(ctx, id); err != nil {
		return fmt.Errorf("have init forget crash record %s: %w", id, err)
	}
	return nil
}
