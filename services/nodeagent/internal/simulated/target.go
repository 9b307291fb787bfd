package simulated

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// checkTarget returns containerd's error for a container in a sandbox that shall share the processes of
// another, if that one does not run or is in another sandbox. The lock is held.
func (r *Runtime) checkTarget(sandbox string, config *cri.ContainerConfig) error {
	options := config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	if options.GetPid() != cri.NamespaceMode_TARGET {
		return nil
	}
	r.settle(time.Now())
	id := options.GetTargetId()
	switch target := r.containers[id]; {
	case target == nil:
		return status.Errorf(codes.NotFound, "invalid target container: container %q does not exist: not found", id)
	case target.SandboxID != sandbox:
		return status.Errorf(codes.Unknown, "invalid target container: container %q (sandbox %s) does not belong to sandbox %s", id, target.SandboxID, sandbox)
	case target.State != cri.ContainerState_CONTAINER_RUNNING:
		return status.Errorf(codes.Unknown, "invalid target container: container %q is not running - in state %s", id, target.State)
	}
	return nil
}
