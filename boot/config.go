package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"reveille/boot/identity"
	"reveille/boot/proc"
	"reveille/boot/state"
	"reveille/tpm"
)

// config opens what the cluster once gave this node or, on a node that was
// never here, enrols it. Only tpm.Absent means the latter; every other fault
// of the stored config stops here with its own message.
func (n *Node) config(ctx context.Context) error {
	if err := n.findVault(ctx); err != nil {
		return err
	}
	c, err := n.recall(ctx)
	if errors.Is(err, tpm.Absent) {
		c, err = n.firstKey(ctx)
	}
	if err != nil {
		n.opened.forgetTPM()
		return sealedFault(err)
	}
	if n.opened.info().Sealed && !n.opened.tpm {
		// An agent before this one opened it. This one must still tell the
		// TPM that nobody else may.
		n.opened.forgetTPM()
		return fmt.Errorf("open the TPM again: %w", tpm.Unresponsive)
	}
	if err := n.checkName(c); err != nil {
		return err
	}
	if n.client == nil {
		if n.client, err = n.newClient(); err != nil {
			return err
		}
	}
	if c.Phase == state.Enrolling {
		if c, err = n.enrol(ctx, c); err != nil {
			return err
		}
	}
	if err := n.useIdentity(c); err != nil {
		return err
	}
	if err := n.recallServices(ctx, c.Services); err != nil {
		return err
	}
	n.keep(ctx, "nodeapi", n.serveAPI)
	return n.notBefore(c.ClusterTime, "the last time the cluster told")
}

// awaitDisk is less than the stage's patience: when that ends, the console can
// say what was found in place of a state partition.
const awaitDisk = 8 * time.Second

// findVault waits for the state partition, and opens the TPM if there is one.
func (n *Node) findVault(ctx context.Context) error {
	if n.opened.vault != nil {
		return nil
	}
	log := n.logger("config")
	waiting, cancel := context.WithTimeout(ctx, awaitDisk)
	defer cancel()
	n.track.Does("config", "looking for the state partition")
	p, err := n.partition.mount(waiting)
	if err != nil {
		return err
	}
	if readOnly, err := p.ReadOnly(); err != nil || readOnly {
		n.said.log(log, slog.LevelWarn, "state partition "+p.Device+" is read-only: what changes in this boot is lost with it")
	}
	defer n.track.Explain("config", nil)
	n.track.Explain("config", func() string { return "the TPM has not answered yet" })
	dev, why := tpm.Open(ctx, tpm.Options{})
	if why != nil {
		n.said.log(log, slog.LevelWarn, fmt.Sprintf("%v; node parameters say tpm: %s", why, n.params.TPM))
	} else {
		log.Info(fmt.Sprintf("%s, binding to %s", dev, dev.Binding()))
	}
	n.opened.tpm = why == nil
	n.opened.vault = p.Vault(dev, why, tpm.Mode(n.params.TPM))
	return nil
}

// recall takes over what an agent before this one left with init, or opens the
// config on the state partition.
func (n *Node) recall(ctx context.Context) (state.Config, error) {
	log := n.logger("config")
	n.track.Does("config", "unsealing the stored config")
	left, err := n.init.Kept(ctx, proc.KeptConfig)
	if err != nil {
		return state.Config{}, err
	}
	var c state.Config
	var info state.Info
	if len(left) > 0 {
		c, info, err = n.opened.vault.Resume(left)
	} else {
		c, info, err = n.opened.vault.Load(ctx)
	}
	for _, w := range info.Warnings {
		log.Warn(w)
	}
	if err != nil {
		return c, err
	}
	log.Info(fmt.Sprintf("opened generation %d, sealed to %s", info.Generation, info.Binding))
	n.opened.set(c, info)
	return c, n.leave(ctx)
}

// firstKey makes the node's key and stores it before it is shown to anybody:
// the ticket will be good for this key only, so a reply that is lost can be
// asked for again after any power cut.
func (n *Node) firstKey(ctx context.Context) (state.Config, error) {
	n.said.log(n.logger("config"), slog.LevelInfo, "nothing stored: a new node, enrolling with its ticket")
	key, err := identity.NewKey()
	if err != nil {
		return state.Config{}, err
	}
	der, err := key.Marshal()
	if err != nil {
		return state.Config{}, err
	}
	c := state.Config{Phase: state.Enrolling, NodeName: n.params.Name, Key: der}
	return c, n.store(ctx, c)
}

// store saves c and leaves it with init for an agent to come.
func (n *Node) store(ctx context.Context, c state.Config) error {
	n.track.Does("config", "sealing the config and writing it to the state partition")
	info, err := n.opened.vault.Save(ctx, c)
	if err != nil {
		return err
	}
	n.opened.set(c, info)
	return n.leave(ctx)
}

func (n *Node) leave(ctx context.Context) error {
	left, err := n.opened.vault.Keep()
	if err != nil {
		return err
	}
	return n.init.Keep(ctx, proc.KeptConfig, left)
}

// change stores the config with one change. Changes are made one after the
// other: the stage's own, and those that heartbeats bring.
func (n *Node) change(ctx context.Context, edit func(*state.Config)) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	c := n.opened.now()
	edit(&c)
	return n.store(ctx, c)
}

// sealedFault adds the remedy, and holds the stage where only an operator can
// apply it. A TPM or disk that does not answer may do so at the next try.
func sealedFault(err error) error {
	outcome := tpm.OutcomeOf(err)
	switch outcome {
	case 0:
		return err
	case tpm.Unreadable, tpm.Unresponsive, tpm.Lockout, tpm.Missing:
		return fmt.Errorf("%w; %s", err, outcome.Remedy())
	}
	return Held{Err: err, Remedy: outcome.Remedy()}
}
