package etcd

import (
	"context"

	"google.golang.org/grpc"
)

// drain ends the streams of clients that are gone but never closed theirs:
// kube-apiserver leaves watches behind when it stops, and etcd would wait
// seconds for them.
type drain struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func newDrain() *drain {
	d := &drain{}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// intercept is a grpc.StreamServerInterceptor.
func (d *drain) intercept(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	return handler(srv, &drainedStream{ServerStream: stream, ctx: ctx})
}

type drainedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *drainedStream) Context() context.Context { return s.ctx }
