package server

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The client's pings over a WebSocket end up to five seconds after its connection.
		goleak.IgnoreTopFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"),
		// If the server resets a connection's stream before the client has seen that it was opened, as it may when
		// nothing listens at the port, the client forgets the one that reads the errors.
		goleak.IgnoreTopFunction("k8s.io/client-go/tools/portforward.(*PortForwarder).handleConnection.func1"),
	)
}
