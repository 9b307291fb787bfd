package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Difference is one point in which two answers to the same case differ.
type Difference struct {
	// Path is the call and the field, without indices: "CreateContainer config.linux.resources.cpuQuota".
	Path string
	// Ours and Theirs are the values in JSON; empty if absent.
	Ours, Theirs string
}

// String returns the difference on one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s: got %s, want %s", d.Path, d.Ours, d.Theirs)
}

// Compare returns the differences between our answer and the kubelet's that are not intended.
func Compare(pod *corev1.Pod, ours, theirs Answer) []Difference {
	var found []Difference
	if a, b := summary(ours.Calls), summary(theirs.Calls); a != b {
		found = append(found, Difference{Path: "calls", Ours: a, Theirs: b})
	} else {
		for i := range ours.Calls {
			found = append(found, compare(ours.Calls[i].Method+" ", ours.Calls[i].Request, theirs.Calls[i].Request)...)
		}
	}
	found = append(found, compareText("hosts", ours.Hosts, theirs.Hosts)...)
	found = append(found, compareText("qosClass", ours.QOSClass, theirs.QOSClass)...)
	names := maps.Clone(ours.Waits)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, theirs.Waits)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		found = append(found, compareText("waits", ours.Waits[name], theirs.Waits[name])...)
	}
	return slices.DeleteFunc(found, func(d Difference) bool { return d.intended(pod) })
}

func compareText(path, ours, theirs string) []Difference {
	if ours == theirs {
		return nil
	}
	return []Difference{{Path: path, Ours: ours, Theirs: theirs}}
}

// summary lists calls by method and container.
func summary(calls []Call) string {
	var b strings.Builder
	for _, call := range calls {
		request, _ := call.Request.(map[string]any)
		config, _ := request["config"].(map[string]any)
		metadata, _ := config["metadata"].(map[string]any)
		image, _ := request["image"].(map[string]any)
		fmt.Fprintf(&b, "%s %v %v %v; ", call.Method, request["containerId"], metadata["name"], image["image"])
	}
	return strings.ReplaceAll(b.String(), " <nil>", "")
}

func compare(path string, ours, theirs any) []Difference {
	if reflect.DeepEqual(ours, theirs) {
		return nil
	}
	if a, ok := ours.(map[string]any); ok {
		if b, ok := theirs.(map[string]any); ok {
			var found []Difference
			keys := maps.Clone(a)
			maps.Copy(keys, b)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				at := path + "." + key
				if strings.HasSuffix(path, " ") {
					at = path + key
				}
				found = append(found, compare(at, a[key], b[key])...)
			}
			return found
		}
	}
	if a, ok := ours.([]any); ok {
		if b, ok := theirs.([]any); ok && len(a) == len(b) {
			var found []Difference
			for i := range a {
				found = append(found, compare(path, a[i], b[i])...)
			}
			return found
		}
	}
	return []Difference{{Path: path, Ours: text(ours), Theirs: text(theirs)}}
}

func text(value any) string {
	if value == nil {
		return ""
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
