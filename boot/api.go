package boot

import (
	"context"

	"reveille/boot/identity"
	"reveille/boot/nodeapi"
	"reveille/boot/proc"
)

// serveAPI answers operators for as long as the machine runs.
func (n *Node) serveAPI(ctx context.Context) error {
	return nodeapi.New(nodeapi.Config{
		Listen:   n.params.API.Listen,
		TLS:      identity.ServerTLS(n.opened.ca, n.opened.tls(), n.trustedTime),
		Logs:     initLog{n.init},
		Services: attachable{n},
		Nudge:    n.nudge,
		Log:      n.logger("nodeapi"),
	}).Run(ctx)
}

// nudge has the next heartbeat be sent now, if the node has joined.
func (n *Node) nudge() {
	select {
	case n.nudged <- struct{}{}:
	default: // it will be
	}
}

// initLog is init's log as the node API serves it.
type initLog struct{ init *proc.Client }

// Read implements nodeapi.LogSource.
func (l initLog) Read(ctx context.Context, q nodeapi.Query) (nodeapi.Page, error) {
	page, err := l.init.Log(ctx, proc.LogQuery{From: q.From, Origins: q.Origins, Level: q.Level, Max: q.Max, Wait: q.Wait})
	if err != nil {
		return nodeapi.Page{Next: q.From}, err
	}
	out := nodeapi.Page{Lost: page.Lost, Next: page.Next, End: page.End}
	for _, r := range page.Records {
		out.Records = append(out.Records, nodeapi.Record{
			Seq: r.Seq, Uptime: r.Uptime, Origin: r.Origin, Level: r.Level, Text: r.Text,
		})
	}
	return out, nil
}
