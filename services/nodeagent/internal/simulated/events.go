package simulated

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// followerBuffer is the number of events buffered for a reader before it is cut off.
const followerBuffer = 1024

// GetContainerEvents streams the events of containers and sandboxes.
func (r *Runtime) GetContainerEvents(_ *cri.GetEventsRequest, stream grpc.ServerStreamingServer[cri.ContainerEventResponse]) error {
	events := make(chan *cri.ContainerEventResponse, followerBuffer)
	r.mu.Lock()
	r.followers[events] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.followers, events)
	}()
	for {
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case event, open := <-events:
			if !open {
				return status.Error(codes.ResourceExhausted, "the reader of events is too slow")
			}
			if err := stream.Send(event); err != nil {
				return err
			}
		}
	}
}

// notify sends an event to all followers. The caller holds mu.
func (r *Runtime) notify(id string, s *sandbox, what cri.ContainerEventType) {
	if len(r.followers) == 0 {
		return
	}
	event := &cri.ContainerEventResponse{ContainerId: id, ContainerEventType: what, CreatedAt: time.Now().UnixNano()}
	if s != nil {
		event.PodSandboxStatus = s.status()
	}
	for follower := range r.followers {
		select {
		case follower <- event:
		default:
			delete(r.followers, follower)
			close(follower)
		}
	}
}
