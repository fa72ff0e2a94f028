package nodeapi

import (
	"context"

	"reveille/boot/cluster/clusterv1"
)

// Nudge implements clusterv1connect.NodeServiceHandler: it says that the
// controller has news, which the next heartbeat's answer brings.
func (s *Server) Nudge(context.Context, *clusterv1.NudgeRequest) (*clusterv1.NudgeResponse, error) {
	if s.cfg.Nudge != nil {
		s.cfg.Nudge()
	}
	return &clusterv1.NudgeResponse{}, nil
}
