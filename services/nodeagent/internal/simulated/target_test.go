package simulated

import (
	"strings"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestTarget(t *testing.T) {
	r := create(t, config(t.TempDir()))
	pods := []*cri.PodSandboxConfig{pod("a", nil), pod("b", map[string]string{AnnotationPrefix + "exit-code": "0"})}
	sandbox, running := start(t, r, pods[0])
	other, ended := start(t, r, pods[1])
	for name, c := range map[string]struct {
		sandbox, target string
		want            string
	}{
		"it runs":       {sandbox, running, ""},
		"it ended":      {other, ended, "is not running - in state CONTAINER_EXITED"},
		"of another":    {other, running, "does not belong to sandbox " + other},
		"there is none": {sandbox, "none", `container "none" does not exist`},
		"no name":       {sandbox, "", `container "" does not exist`},
	} {
		_, err := r.CreateContainer(t.Context(), &cri.CreateContainerRequest{PodSandboxId: c.sandbox, SandboxConfig: pods[0], Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "debug-" + strings.ReplaceAll(name, " ", "-")}, Image: &cri.ImageSpec{Image: "nginx"},
			Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_TARGET, TargetId: c.target},
			}},
		}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), "invalid target container: ") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
