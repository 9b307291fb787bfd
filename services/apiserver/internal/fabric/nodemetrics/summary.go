package nodemetrics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Bounds of what a node may report.
const (
	// maxNanoCores is a million cores.
	maxNanoCores = 1_000_000 * 1_000_000_000
	// maxBytes is an exbibyte.
	maxBytes = 1 << 60
	// maxPods, maxContainers and maxFigures are how many pods it may report, containers of each, and of all.
	maxPods, maxContainers, maxFigures = 4096, 256, 16384
	// maxSkew is how far from now a measurement may be by the clock of the node.
	maxSkew = time.Hour
)

const (
	// reportedWindow is the longest time over which a node measures the CPU usage that it reports as a rate
	// (Kubernetes, maxHousekeepingInterval of the kubelet's cAdvisor).
	reportedWindow = 15 * time.Second
	// A container that started at least youngest and less than youth ago was measured from its start on
	// (metrics-server, freshContainerMinMetricsResolution and its default resolution).
	youngest = 10 * time.Second
	youth    = time.Minute
)

// summary is the part of k8s.io/kubelet/pkg/apis/stats/v1alpha1.Summary that is used. Lists are read one by one,
// so that many empty elements cost no memory.
type summary struct {
	Node reported        `json:"node"`
	Pods json.RawMessage `json:"pods"`
}

// reportedPod is what a node reports about a pod.
type reportedPod struct {
	PodRef struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
	} `json:"podRef"`
	Containers json.RawMessage `json:"containers"`
}

// reported is what a node reports about itself or about a container.
type reported struct {
	Name      string    `json:"name"`
	StartTime time.Time `json:"startTime"`
	CPU       struct {
		Time                 time.Time `json:"time"`
		UsageNanoCores       *uint64   `json:"usageNanoCores"`
		UsageCoreNanoSeconds *uint64   `json:"usageCoreNanoSeconds"`
	} `json:"cpu"`
	Memory struct {
		Time            time.Time `json:"time"`
		WorkingSetBytes uint64    `json:"workingSetBytes"`
	} `json:"memory"`
}

// figure is what a node or a container uses.
type figure struct {
	complete  bool
	at        time.Time
	window    time.Duration // before at, over which nanoCores was measured
	nanoCores uint64
	bytes     uint64
	// started is when the counter of CPU time began with 0, and total is its value; nil if there is none.
	started time.Time
	total   *uint64
}

// pod has the figures of the containers of a pod.
type pod struct {
	uid        string
	containers map[string]figure
}

// answer is what a node reported.
type answer struct {
	node figure
	pods map[types.NamespacedName]pod
}

// parse reads the answer of a node at the time now. before is its previous answer, or nil. As in metrics-server
// the first of several reports about one thing counts.
func parse(data []byte, before *answer, now time.Time) (*answer, error) {
	var read summary
	if err := json.Unmarshal(data, &read); err != nil {
		return nil, fmt.Errorf("reading its stats: %w", err)
	}
	if before == nil {
		before = &answer{}
	}
	read.Node.StartTime = time.Time{} // The collection began then; the counter is older.
	a := &answer{node: measure(&read.Node, before.node, now), pods: map[types.NamespacedName]pod{}}
	figures := 0
	err := each(read.Pods, maxPods, func(from reportedPod) error {
		name := types.NamespacedName{Namespace: from.PodRef.Namespace, Name: from.PodRef.Name}
		if _, twice := a.pods[name]; twice {
			return nil
		}
		earlier := before.pods[name]
		if earlier.uid != from.PodRef.UID {
			earlier = pod{}
		}
		p := pod{uid: from.PodRef.UID, containers: map[string]figure{}}
		a.pods[name] = p
		return each(from.Containers, maxContainers, func(c reported) error {
			if _, twice := p.containers[c.Name]; twice {
				return nil
			}
			if figures++; figures > maxFigures {
				return fmt.Errorf("there are more than %d containers", maxFigures)
			}
			p.containers[c.Name] = measure(&c, earlier.containers[c.Name], now)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("reading its stats of pods: %w", err)
	}
	return a, nil
}

// each reads the elements of a list, which may be missing. It is an error if there are more than most.
func each[T any](list json.RawMessage, most int, use func(T) error) error {
	if len(list) == 0 || string(list) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(list))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return errNoList
	}
	for n := 0; d.More(); n++ {
		if n == most {
			return fmt.Errorf("a list has more than %d elements", most)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		if err := use(one); err != nil {
			return err
		}
	}
	return nil
}

// errNoList means that a node reports something else where a list must be.
var errNoList = errors.New("it is no list")

// measure returns a figure, which is incomplete if the report lacks something or cannot be true. before is the
// previous figure of the same, or the zero value.
func measure(r *reported, before figure, now time.Time) figure {
	f := figure{at: r.CPU.Time, started: r.StartTime, total: r.CPU.UsageCoreNanoSeconds, bytes: r.Memory.WorkingSetBytes}
	rated := true
	switch {
	case r.CPU.UsageNanoCores != nil:
		f.nanoCores, f.window = *r.CPU.UsageNanoCores, reportedWindow
	case f.total == nil:
		rated = false
	case !f.at.After(before.at) && before.complete && before.total != nil && *before.total == *f.total:
		f.nanoCores, f.window = before.nanoCores, before.window // It has not measured again.
	case before.total != nil && f.at.After(before.at) && !f.started.After(before.at) && *f.total >= *before.total:
		f.nanoCores, f.window = rate(*f.total-*before.total, f.at.Sub(before.at))
	case !f.started.IsZero() && f.at.Sub(f.started) >= youngest && f.at.Sub(f.started) < youth:
		f.nanoCores, f.window = rate(*f.total, f.at.Sub(f.started))
	default:
		rated = false
	}
	f.complete = rated && f.nanoCores <= maxNanoCores && f.bytes > 0 && f.bytes <= maxBytes &&
		f.window > 0 && f.at.Sub(now).Abs() <= maxSkew
	return f
}

// rate returns the nanoseconds of CPU time for each second of a window, and the window.
func rate(nanoseconds uint64, window time.Duration) (uint64, time.Duration) {
	each := float64(nanoseconds) / window.Seconds()
	if each > maxNanoCores {
		return maxNanoCores + 1, window
	}
	return uint64(each), window
}
