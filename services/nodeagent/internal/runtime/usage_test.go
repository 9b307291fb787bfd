package runtime_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/simulated"
)

// testUsage checks what a container uses, and its sandbox.
func testUsage(t *testing.T, b *bench) {
	pod := b.pod(t, map[string]string{simulated.AnnotationPrefix + "cpu-usage": "500m", simulated.AnnotationPrefix + "memory-usage": "2Mi"})
	sandbox := b.sandbox(t, pod)
	id := b.start(t, sandbox, b.shell(t, "main", "sleep 1000"), pod)
	stranger := connect(t, b.client.Endpoint())
	stranger.Own("another-node")
	var fault error
	for deadline := time.Now().Add(patience / 4); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		if fault = uses(t, b.client, sandbox, id); fault == nil {
			break
		}
	}
	if fault != nil {
		t.Fatal(fault)
	}
	sandboxes, err := stranger.SandboxUsages(t.Context())
	if err != nil || len(sandboxes) != 0 {
		t.Errorf("another node sees %+v, %v", sandboxes, err)
	}
	containers, err := stranger.ContainerUsages(t.Context())
	if err != nil || len(containers) != 0 {
		t.Errorf("another node sees %+v, %v", containers, err)
	}
	if images, err := b.client.ImageFilesystem(t.Context()); err != nil || images.Mountpoint == "" || images.Used == nil || images.At.IsZero() {
		t.Errorf("images use %+v, %v", images, err)
	}
}

// uses returns what is wrong with the use of a container, and of its sandbox.
func uses(t *testing.T, client *runtime.Client, sandbox, container string) error {
	t.Helper()
	check := func(cpu *runtime.CPUUsage, memory *runtime.MemoryUsage) error {
		if cpu == nil || cpu.CoreNanoSeconds == nil || *cpu.CoreNanoSeconds == 0 || time.Since(cpu.At) > patience {
			return fmt.Errorf("it uses the CPU %+v", cpu)
		}
		if memory == nil || memory.WorkingSet == nil || *memory.WorkingSet == 0 || *memory.WorkingSet > 1<<30 {
			return fmt.Errorf("it uses the memory %+v", memory)
		}
		return nil
	}
	containers, err := client.ContainerUsages(t.Context())
	if err != nil || len(containers) != 1 || containers[0].ID != container || containers[0].Name != "main" {
		return fmt.Errorf("containers use %+v, %w", containers, err)
	}
	if err := check(containers[0].CPU, containers[0].Memory); err != nil {
		return err
	}
	if containers[0].Writable == nil || containers[0].Writable.Used == nil {
		return fmt.Errorf("it writes %+v", containers[0].Writable)
	}
	sandboxes, err := client.SandboxUsages(t.Context())
	if err != nil || len(sandboxes) != 1 || sandboxes[0].ID != sandbox || len(sandboxes[0].Containers) != 1 {
		return fmt.Errorf("sandboxes use %+v, %w", sandboxes, err)
	}
	return check(sandboxes[0].CPU, sandboxes[0].Memory)
}
