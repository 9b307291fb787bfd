package simulated

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// AnnotationPrefix is the prefix of the keys that this package reads.
const AnnotationPrefix = "simulated.garboard.io/"

// The keys, after AnnotationPrefix.
const (
	keyStartDelay  = "start-delay"
	keyExitAfter   = "exit-after"
	keyExitCode    = "exit-code"
	keyStopDelay   = "stop-delay"
	keyLog         = "log"
	keyExecOutput  = "exec-output"
	keyExecCode    = "exec-code"
	keyFailSandbox = "fail-sandbox"
	keyFailCreate  = "fail-create"
	keyFailStart   = "fail-start"
	keyFailPull    = "fail-pull"
	keyPullDelay   = "pull-delay"
	keyHTTPStatus  = "http-status"
	keyCPUUsage    = "cpu-usage"
	keyMemoryUsage = "memory-usage"
)

// What a running container uses if its pod does not say it: a thousandth of a core, and 4 MiB.
const (
	usualNanoCores = 1_000_000
	usualMemory    = 4 << 20
)

// maxCores bounds the use of CPU that a pod may set, in cores.
const maxCores = 10_000

// behaviour is the configured behaviour of one container.
type behaviour struct {
	startDelay, stopDelay time.Duration
	// exits reports that the container ends by itself, exitAfter after its start, with exitCode.
	exits     bool
	exitAfter time.Duration
	exitCode  int32
	log       string
	execOut   string
	execCode  int32
	execSet   bool // the pod says how commands end
	failStart string
	// nanoCores and memory are what the container uses while it runs: billionths of a core, and bytes.
	nanoCores, memory uint64
}

// annotation returns the value of a key for a container; a key with the container's name takes
// precedence.
func annotation(annotations map[string]string, key, container string) (string, bool) {
	if container != "" {
		if value, ok := annotations[AnnotationPrefix+key+"."+container]; ok {
			return value, true
		}
	}
	value, ok := annotations[AnnotationPrefix+key]
	return value, ok
}

// stays reports whether a container of a Job's pod runs until it is stopped: if it sleeps, or runs the
// image pause.
func stays(config *cri.ContainerConfig) bool {
	words := append(slices.Clone(config.GetCommand()), config.GetArgs()...)
	if len(words) > 2 && words[1] == "-c" {
		words = strings.Fields(words[2]) // a script of a shell
	}
	if len(words) == 0 {
		image := config.GetImage().GetUserSpecifiedImage()
		name, _, _ := strings.Cut(path.Base(image), "@")
		name, _, _ = strings.Cut(name, ":")
		words = []string{name}
	}
	first := path.Base(words[0])
	return first == "sleep" || first == "pause"
}

// behaviourOf reads the annotations of a pod for one of its containers. An invalid value is an
// error: a test with a misspelt value must not pass by luck.
func (c Config) behaviourOf(sandbox *cri.PodSandboxConfig, config *cri.ContainerConfig) (behaviour, error) {
	annotations, container := sandbox.GetAnnotations(), config.GetMetadata().GetName()
	b := behaviour{
		startDelay: c.StartDelay, exits: c.RunFor > 0, exitAfter: c.RunFor, exitCode: c.ExitCode,
		nanoCores: usualNanoCores, memory: usualMemory,
	}
	if isInit(config) || sandbox.GetLabels()[batchv1.JobNameLabel] != "" && !stays(config) {
		b.exits, b.exitAfter, b.exitCode = true, 0, 0
	}
	var faults []string
	duration := func(key string, into *time.Duration) bool {
		text, ok := annotation(annotations, key, container)
		if !ok {
			return false
		}
		value, err := time.ParseDuration(text)
		if err != nil || value < 0 {
			faults = append(faults, fmt.Sprintf("%s%s is %q, not a duration like 2s", AnnotationPrefix, key, text))
			return false
		}
		*into = value
		return true
	}
	code := func(key string, into *int32) bool {
		text, ok := annotation(annotations, key, container)
		if !ok {
			return false
		}
		value, err := strconv.ParseUint(text, 10, 8)
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s%s is %q, not a number from 0 to 255", AnnotationPrefix, key, text))
			return false
		}
		*into = int32(value)
		return true
	}
	duration(keyStartDelay, &b.startDelay)
	duration(keyStopDelay, &b.stopDelay)
	if code(keyExitCode, &b.exitCode) {
		b.exits, b.exitAfter = true, 0
	}
	if duration(keyExitAfter, &b.exitAfter) {
		b.exits = true
	}
	b.log, _ = annotation(annotations, keyLog, container)
	b.execOut, b.execSet = annotation(annotations, keyExecOutput, container)
	b.execSet = code(keyExecCode, &b.execCode) || b.execSet
	b.failStart, _ = annotation(annotations, keyFailStart, container)
	faults = append(faults, b.readUsage(annotations, container)...)
	if len(faults) > 0 {
		return behaviour{}, fmt.Errorf("reading the pod's annotations: %s", strings.Join(faults, "; "))
	}
	return b, nil
}

// readUsage reads what a container uses, and returns what is wrong with it.
func (b *behaviour) readUsage(annotations map[string]string, container string) (faults []string) {
	read := func(key string, scale resource.Scale, largest int64, into *uint64) {
		text, ok := annotation(annotations, key, container)
		if !ok {
			return
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil || quantity.Sign() < 0 || quantity.CmpInt64(largest) > 0 {
			faults = append(faults, fmt.Sprintf("%s%s is %q, not a quantity from 0 to %d", AnnotationPrefix, key, text, largest))
			return
		}
		*into = uint64(quantity.ScaledValue(scale)) //nolint:gosec // not negative
	}
	read(keyCPUUsage, resource.Nano, maxCores, &b.nanoCores)
	read(keyMemoryUsage, 0, 1<<50, &b.memory)
	return faults
}
