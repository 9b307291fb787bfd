package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Events passes the runtime's events to handle, one at a time, until ctx ends (it then returns nil)
// or the stream breaks. A runtime without events (containerd before 1.7) returns ErrUnsupported:
// relisting is the basis, events only speed it up.
func (c *Client) Events(ctx context.Context, handle func(Event)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.runtime.GetContainerEvents(ctx, &cri.GetEventsRequest{})
	for err == nil {
		var message *cri.ContainerEventResponse
		if message, err = stream.Recv(); err != nil {
			break
		}
		if event, ok := eventOf(message); ok {
			handle(event)
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("following the runtime's events: %w: the stream ended", ErrUnavailable)
	default:
		return failed("following the runtime's events", err)
	}
}

var eventTypes = map[cri.ContainerEventType]EventType{
	cri.ContainerEventType_CONTAINER_CREATED_EVENT: EventCreated,
	cri.ContainerEventType_CONTAINER_STARTED_EVENT: EventStarted,
	cri.ContainerEventType_CONTAINER_STOPPED_EVENT: EventStopped,
	cri.ContainerEventType_CONTAINER_DELETED_EVENT: EventDeleted,
}

func eventOf(e *cri.ContainerEventResponse) (Event, bool) {
	t, known := eventTypes[e.GetContainerEventType()]
	return Event{
		ID:     e.GetContainerId(),
		PodUID: e.GetPodSandboxStatus().GetMetadata().GetUid(),
		Type:   t,
		At:     moment(e.GetCreatedAt()),
	}, known
}
