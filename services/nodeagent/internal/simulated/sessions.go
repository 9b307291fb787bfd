package simulated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/services/nodeagent/internal/containerlog"
	"github.com/garboard/garboard/services/nodeagent/internal/simulated/shell"
)

// lookEvery is how often a session looks whether its container still runs.
const lookEvery = 100 * time.Millisecond

// Exec prepares a command in a running container. See the package's documentation for the commands.
func (r *Runtime) Exec(ctx context.Context, request *cri.ExecRequest) (*cri.ExecResponse, error) {
	if err := r.mustRun(request.GetContainerId()); err != nil {
		return nil, err
	}
	if len(request.GetCmd()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no command to run")
	}
	server, err := r.streams.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	return server.GetExec(request)
}

// Attach prepares a session with the output of a running container.
func (r *Runtime) Attach(ctx context.Context, request *cri.AttachRequest) (*cri.AttachResponse, error) {
	if err := r.mustRun(request.GetContainerId()); err != nil {
		return nil, err
	}
	server, err := r.streams.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	return server.GetAttach(request)
}

// sessions runs the sessions.
type sessions struct {
	runtime *Runtime
	ctx     context.Context //nolint:containedctx // the library passes port forwarding no context that ends
}

// Exec runs a command. Like containerd, it reports a command that ran and failed by its exit code, and
// one that does not exist by an error.
func (s *sessions) Exec(ctx context.Context, id string, command []string, in io.Reader, out, errOut io.WriteCloser,
	_ bool, resize <-chan remotecommand.TerminalSize) error {
	p, answer, err := s.runtime.process(id)
	if err != nil {
		return err
	}
	p.In, p.Out, p.Err = in, writer(out), writer(errOut)
	if errOut == nil {
		p.Err = p.Out // a terminal shows both
	}
	if in == nil {
		p.In = strings.NewReader("")
	}
	code, err := s.during(ctx, id, resize, func(ctx context.Context) (int32, error) {
		if answer.execSet {
			_, _ = io.WriteString(p.Out, answer.execOut)
			return answer.execCode, nil
		}
		return p.Run(ctx, command)
	})
	switch {
	case errors.Is(err, errSessionOver):
		code = killed
	case err != nil:
		return fmt.Errorf("failed to exec in container: failed to start exec %q: %w", newID(), err)
	}
	if code == 0 {
		return nil
	}
	return utilexec.CodeExitError{Err: fmt.Errorf("error executing command %v, exit code %d", command, code), Code: int(code)}
}

// Attach copies what the container writes from now on until it ends, and drops what it is sent.
func (s *sessions) Attach(ctx context.Context, id string, in io.Reader, out, errOut io.WriteCloser,
	_ bool, resize <-chan remotecommand.TerminalSize) error {
	path, err := s.runtime.logPath(id)
	if err != nil {
		return err
	}
	if in != nil {
		s.runtime.streams.Go(func() { _, _ = io.Copy(io.Discard, in) })
	}
	_, err = s.during(ctx, id, resize, func(ctx context.Context) (int32, error) {
		if out == nil && errOut == nil || path == "" {
			<-ctx.Done()
			return 0, nil
		}
		running := func(context.Context) (bool, error) { return s.runtime.runs(id), nil }
		none := int64(0)
		return 0, containerlog.Read(ctx, path, containerlog.Options{Follow: true, Tail: &none, Only: containerlog.Stdout}, running, writer(out))
	})
	if errors.Is(err, errSessionOver) {
		return nil
	}
	return err
}

// errSessionOver: the container or the connection ended before what the session ran.
var errSessionOver = errors.New("the container has ended, or nobody listens any more")

// during runs what a session consists of, and returns what run does. It returns errSessionOver when the
// container or ctx ends first; run may still wait for input then, until the session's connection ends.
func (s *sessions) during(ctx context.Context, id string, resize <-chan remotecommand.TerminalSize,
	run func(context.Context) (int32, error)) (int32, error) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		for s.runtime.runs(id) && backoff.Sleep(ctx, lookEvery) {
			continue
		}
		cancel()
	})
	watching.Go(func() { drop(ctx, resize) })
	type result struct {
		code int32
		err  error
	}
	done := make(chan result, 1)
	if !s.runtime.streams.Go(func() {
		code, err := run(ctx)
		done <- result{code, err}
	}) {
		return 0, errSessionOver
	}
	select {
	case ran := <-done:
		if ctx.Err() == nil {
			return ran.code, ran.err
		}
	case <-ctx.Done():
	}
	return 0, errSessionOver
}

// drop receives the sizes of the client's terminal, which change nothing.
func drop(ctx context.Context, resize <-chan remotecommand.TerminalSize) {
	for {
		select {
		case _, ok := <-resize:
			if !ok {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// runs reports whether a container runs.
func (r *Runtime) runs(id string) bool { return r.mustRun(id) == nil }

// mustRun returns the error of a call that needs a running container.
func (r *Runtime) mustRun(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.runningContainer(id)
	return err
}

// logPath returns the path of a container's log; empty if it has none.
func (r *Runtime) logPath(id string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.runningContainer(id)
	if err != nil {
		return "", err
	}
	return c.LogPath, nil
}

// process returns a process to run in a container, without its streams, and the configured answer to
// commands.
func (r *Runtime) process(id string) (*shell.Process, behaviour, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.runningContainer(id)
	if err != nil {
		return nil, behaviour{}, err
	}
	hostname := r.sandboxes[c.SandboxID].Config.M.GetHostname()
	p := &shell.Process{Hostname: hostname, Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=" + hostname}}
	for _, variable := range c.Config.M.GetEnvs() {
		p.Env = append(p.Env, variable.GetKey()+"="+string(variable.GetValue()))
	}
	return p, r.behaviour(c), nil
}

// writer returns w, or what drops everything if the session does not have this stream.
func writer(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
