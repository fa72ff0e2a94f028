package netcfg

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"
)

// applyAll does the operations, and says which was the first that is refused.
// After it goes on what does not build on it: one driver that takes no large
// MTU must not keep all other links without their addresses. What an earlier
// document had stays then, because what takes its place may be what was refused.
func (r *Reconciler) applyAll(ctx context.Context, net network, ops []Op, report *Report) (string, error) {
	report.Ops = slices.Grow(report.Ops, len(ops))
	var refused string
	var first error
	left := undone{}
	for _, op := range ops {
		if first != nil && (op.Retires || left.under(op)) {
			left.add(op)
			continue
		}
		report.Writes++
		err := net.Apply(ctx, op)
		if err == nil {
			r.applied(op, report)
			continue
		}
		if op.Verb == OpSysctl {
			r.refuse(op, err, time.Now())
			continue // nothing else depends on it
		}
		if first == nil {
			refused, first = op.String(), err
		}
		left.add(op)
		if errno := syscall.Errno(0); !errors.As(err, &errno) {
			break // no refusal: the kernel cannot be asked
		}
	}
	return refused, first
}

func (r *Reconciler) applied(op Op, report *Report) {
	r.triedIPv6(op, time.Now())
	report.Ops = append(report.Ops, op)
	if r.opt.Applied != nil {
		r.opt.Applied(op)
	}
}

// undone is what operations that were refused, or left out for that, were about:
// interfaces by name, and IPs that are still where they shall not be.
type undone map[any]bool

func (u undone) add(op Op) {
	if op.Link != "" { // a rule, and a route that refuses, have none
		u[op.Link] = true
	}
	switch op.Verb {
	case OpRename: // who has the new name is somebody else
		u[op.Other] = true
	case OpDeleteAddress:
		u[op.Address.Addr()] = true
	}
}

// under reports whether op would find something else than was planned.
func (u undone) under(op Op) bool {
	return u[op.Link] || u[op.Other] || op.Verb == OpAddAddress && u[op.Address.Addr()]
}
