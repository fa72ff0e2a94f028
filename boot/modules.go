package boot

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"reveille/boot/modules"
)

// always are modules that no device asks for by a modalias: the state
// partition's file system.
var always = []string{"vfat"}

// modules loads what the machine's devices ask for, and goes on doing so for
// those that appear later.
func (n *Node) modules(ctx context.Context) error {
	log := n.logger("modules")
	loader, err := modules.Open("/", log)
	if errors.Is(err, fs.ErrNotExist) {
		log.Warn("the image has no modules for this kernel; going on with what is built in")
		loader, err = modules.None(log), nil
	}
	if err != nil {
		return err
	}
	n.loader = loader
	n.loadKeepers()
	for _, name := range always {
		if err := loader.Load(name); err != nil {
			log.Warn(err.Error() + ", going on without it")
		}
	}
	if err := loader.Coldplug(ctx); err != nil {
		return err
	}
	if _, err := os.Stat("/dev/watchdog0"); errors.Is(err, fs.ErrNotExist) {
		// No hardware for it: a timer of the kernel's restarts at least a
		// machine whose init hangs (boot/pid1).
		if err := loader.Load("softdog"); err != nil {
			log.Warn(err.Error() + ", going on without a watchdog")
		}
	}
	n.keep(ctx, "modules", func(ctx context.Context) error { return loader.Watch(ctx, nil) })
	return nil
}
