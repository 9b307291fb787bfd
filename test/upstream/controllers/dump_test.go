package upstream

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// dump is what a plane has of a script: a line for each field of each object, and one for each reason of Events.
// Its keys are free of what differs by chance.
type dump map[string]string

var (
	// suffix is what the apiserver appends to a generated name.
	suffix = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	// unanswered matches the error of a call that had no answer.
	unanswered = regexp.MustCompile(`connection refused|connection reset|\bEOF\b|use of closed network connection`)
	instant    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	uid        = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// dump reads everything of a script: what is in its namespace, and what is in none and begins with its name.
func (p *plane) dump(ctx context.Context, home string) (dump, error) {
	var objects []unstructured.Unstructured
	for _, resource := range p.resources {
		found, err := p.list(ctx, resource, home)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	for _, resource := range p.cluster {
		found, err := p.list(ctx, resource, "")
		if err != nil {
			return nil, err
		}
		for _, obj := range found {
			if homeOf(obj.GetName()) == home {
				objects = append(objects, obj)
			}
		}
	}
	events, err := p.list(ctx, schema.GroupVersionResource{Version: "v1", Resource: "events"}, home)
	if err != nil {
		return nil, err
	}
	return normalise(objects, events), nil
}

func (p *plane) list(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]unstructured.Unstructured, error) {
	found, err := p.client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
	}
	for i := range found.Items {
		if found.Items[i].GetKind() == "" {
			found.Items[i].SetKind(strings.TrimSuffix(found.GetKind(), "List"))
		}
	}
	return found.Items, nil
}

// normalise returns the lines of objects and Events. Objects with a generated name are numbered by their content.
func normalise(objects, events []unstructured.Unstructured) dump {
	uids := map[string]string{}
	for _, obj := range objects {
		uids[string(obj.GetUID())] = obj.GetKind() + " " + stable(obj.GetName())
	}
	siblings := map[string][]string{}
	for _, obj := range objects {
		name := obj.GetKind() + " " + stable(obj.GetName())
		content, err := json.Marshal(clean(strip(obj), uids, ""))
		if err != nil { // It came as JSON.
			panic(err)
		}
		siblings[name] = append(siblings[name], string(content))
	}
	lines := dump{}
	for name, contents := range siblings {
		slices.Sort(contents)
		for i, content := range contents {
			own := name
			if len(contents) > 1 {
				own = fmt.Sprintf("%s %d", name, i+1)
			}
			var value any
			if err := json.Unmarshal([]byte(content), &value); err != nil {
				panic(err)
			}
			lines[own] = "exists"
			lines.flatten(own+" ", value)
		}
	}
	for _, event := range events {
		about, _, _ := unstructured.NestedStringMap(event.Object, "involvedObject")
		if about == nil {
			about = map[string]string{}
			ref, _, _ := unstructured.NestedMap(event.Object, "involvedObject")
			for key, value := range ref {
				about[key] = fmt.Sprint(value)
			}
		}
		if message, _, _ := unstructured.NestedString(event.Object, "message"); unanswered.MatchString(message) {
			continue // Whether a call was under way when the apiserver was killed is chance.
		}
		reason, _, _ := unstructured.NestedString(event.Object, "reason")
		kind, _, _ := unstructured.NestedString(event.Object, "type")
		lines[fmt.Sprintf("Event %s %s: %s %s", about["kind"], stable(about["name"]), kind, reason)] = "exists"
	}
	return lines
}

// strip returns an object without what the apiserver sets by itself.
func strip(obj unstructured.Unstructured) map[string]any {
	content := obj.DeepCopy().Object
	meta, _ := content["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "name", "namespace", "selfLink"} {
		delete(meta, field)
	}
	// How many writes led to a spec depends on when a controller saw what. That its status is of the last one does not.
	if status, is := content["status"].(map[string]any); is && status["observedGeneration"] != nil {
		status["observedGeneration"] = fmt.Sprint("of the spec: ", status["observedGeneration"] == meta["generation"])
	}
	delete(meta, "generation")
	delete(content, "apiVersion")
	delete(content, "kind")
	if spec, is := content["spec"].(map[string]any); is && obj.GetKind() == "Pod" {
		// A DaemonSet's pods go where their affinity says, which stays.
		if spec["nodeName"] != nil {
			spec["nodeName"] = "NODE"
		}
	}
	return content
}

// stable returns a name without its generated end.
func stable(name string) string { return suffix.ReplaceAllString(name, "-*") }

// clean replaces what differs by chance in a value. field is the name of the field that has it.
func clean(value any, uids map[string]string, field string) any {
	switch value := value.(type) {
	case map[string]any:
		cleaned := map[string]any{}
		for key, item := range value {
			if key == "resourceVersion" {
				continue
			}
			cleaned[cleanText(key, uids)] = clean(item, uids, key)
		}
		return cleaned
	case []any:
		cleaned := make([]any, 0, len(value))
		for _, item := range value {
			cleaned = append(cleaned, clean(item, uids, field))
		}
		if unordered(field) {
			slices.SortFunc(cleaned, func(a, b any) int {
				return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
			})
		}
		return cleaned
	case string:
		if field == "nodeName" {
			return "NODE"
		}
		return cleanText(value, uids)
	}
	return value
}

// unordered reports whether the order of a list says nothing.
func unordered(field string) bool {
	return slices.Contains([]string{"conditions", "endpoints", "addresses", "notReadyAddresses", "ownerReferences", "finalizers", "taints"}, field)
}

func cleanText(text string, uids map[string]string) string {
	// Secrets have their data in base64.
	if data, err := base64.StdEncoding.DecodeString(text); err == nil && len(data) > 100 {
		text = string(data)
	}
	if strings.HasPrefix(text, "ey") && strings.Count(text, ".") == 2 {
		return "TOKEN" // Each plane signs by a key of its own.
	}
	if strings.HasPrefix(text, "-----BEGIN CERTIFICATE-----") {
		return "CERTIFICATE" // Each plane has an authority of its own.
	}
	if _, err := netip.ParseAddr(text); err == nil {
		return "IP"
	}
	if _, err := netip.ParsePrefix(text); err == nil {
		return "CIDR"
	}
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		return "TIME"
	}
	text = uid.ReplaceAllStringFunc(text, func(found string) string {
		if name := uids[found]; name != "" {
			return "uid of " + name
		}
		return "UID"
	})
	if nested := map[string]any{}; strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &nested) == nil {
		delete(nested, "resourceVersion")
		if again, err := json.Marshal(nested); err == nil {
			text = string(again)
		}
	}
	return stable(instant.ReplaceAllString(text, "TIME"))
}

// flatten adds a line for each field below a path.
func (d dump) flatten(path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			d.flatten(path+"."+key, item)
		}
	case []any:
		for i, item := range value {
			name := fmt.Sprint(i)
			if item, is := item.(map[string]any); is && item["type"] != nil {
				name = fmt.Sprint(item["type"])
			}
			d.flatten(path+"["+name+"]", item)
		}
	default:
		text, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		d[path] = string(text)
	}
}

// line is a difference of two dumps.
type line struct{ path, ours, theirs string }

func (l line) String() string {
	return fmt.Sprintf("%s: %s %s, %s %s", l.path, ours, l.ours, kcm, l.theirs)
}

// compare returns how two dumps differ. Of an object that only one plane has there is one line.
func compare(mine, other dump) []line {
	var found []line
	all := map[string]bool{}
	for path := range mine {
		all[path] = true
	}
	for path := range other {
		all[path] = true
	}
	const absent = "has none"
	for path := range all {
		a, hasA := mine[path]
		b, hasB := other[path]
		if a == b && hasA == hasB {
			continue
		}
		object, _, isField := strings.Cut(path, " .")
		if isField && (mine[object] == "") != (other[object] == "") {
			continue
		}
		if !hasA {
			a = absent
		}
		if !hasB {
			b = absent
		}
		found = append(found, line{path, a, b})
	}
	slices.SortFunc(found, func(a, b line) int { return strings.Compare(a.path, b.path) })
	return found
}
