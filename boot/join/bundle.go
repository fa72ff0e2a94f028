package join

import (
	"context"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
)

// UploadBundle hands a crash record (boot/crash) to the cluster, over a
// connection of its own so that heartbeats do not wait for it. When it returns
// nil, the cluster has stored the record. Errors: *Refused, *Unreachable, or
// ctx's. It may be called while Run runs.
func (ms *Membership) UploadBundle(ctx context.Context, record []byte) error {
	s, err := ms.client.attempt(ctx, ms.tls, "upload crash record", func(ctx context.Context, s *session) error {
		_, err := clusterv1connect.NewMembershipServiceClient(s.http, baseURL, options()).UploadBundle(ctx,
			&clusterv1.UploadBundleRequest{BootId: ms.member.BootID, Record: record})
		return err
	})
	if err != nil {
		return err
	}
	s.close()
	return nil
}
