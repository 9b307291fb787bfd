package runtime

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Streams selects what a session with a container's process carries. A process with a TTY has one
// output, which is its standard output: runtimes refuse Stderr with TTY.
type Streams struct{ Stdin, Stdout, Stderr, TTY bool }

// Exec prepares a command in a running container. It returns the URL at the runtime's own server at
// which a client of Kubernetes' streaming protocols runs the command, once and within a minute.
func (c *Client) Exec(ctx context.Context, id string, command []string, streams Streams) (*url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	answer, err := c.runtime.Exec(ctx, &cri.ExecRequest{
		ContainerId: id, Cmd: command,
		Stdin: streams.Stdin, Stdout: streams.Stdout, Stderr: streams.Stderr, Tty: streams.TTY,
	})
	return streamURL("preparing a command in the container "+short(id), answer.GetUrl(), err)
}

// Attach prepares a session with the main process of a running container, and returns its URL as Exec
// does. streams.TTY must be that of the container.
func (c *Client) Attach(ctx context.Context, id string, streams Streams) (*url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	answer, err := c.runtime.Attach(ctx, &cri.AttachRequest{
		ContainerId: id,
		Stdin:       streams.Stdin, Stdout: streams.Stdout, Stderr: streams.Stderr, Tty: streams.TTY,
	})
	return streamURL("preparing to attach to the container "+short(id), answer.GetUrl(), err)
}

// PortForward prepares connections to ports of a sandbox, and returns the URL as Exec does. Only the
// oldest protocol needs ports; the others name the port of each connection.
func (c *Client) PortForward(ctx context.Context, sandboxID string, ports []int32) (*url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	answer, err := c.runtime.PortForward(ctx, &cri.PortForwardRequest{PodSandboxId: sandboxID, Port: ports})
	return streamURL("preparing to forward ports of the sandbox "+short(sandboxID), answer.GetUrl(), err)
}

// streamURL reads the URL in a runtime's answer to call.
func streamURL(call, answer string, err error) (*url.URL, error) {
	if err != nil {
		return nil, failed(call, err)
	}
	if answer == "" {
		return nil, failed(call, errors.New("the runtime returned no URL"))
	}
	location, err := url.Parse(answer)
	if err != nil {
		// The error of url.Parse has the URL, which is as good as a password.
		return nil, failed(call, fmt.Errorf("the runtime returned %d bytes that are not a URL", len(answer)))
	}
	return location, nil
}
