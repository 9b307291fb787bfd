package faultpoint

import (
	"fmt"
	"path"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "k8s.io/cri-api/pkg/apis/runtime/v1" // registers the messages
)

// Point names one call of a run. A call that changes something is named by its method, its subject
// and its number ("RemoveContainer web", "PullImage busybox:1.36 #2"). A call that only reads is
// named by the change before it ("ListContainers after StartContainer web").
type Point string

// Reads reports whether the call at the point changes nothing.
func (p Point) Reads() bool { return strings.Contains(string(p), " after ") }

// Method returns the call's CRI method.
func (p Point) Method() string {
	method, _, _ := strings.Cut(string(p), " ")
	return method
}

// journal names the calls of a run.
type journal struct {
	// names maps IDs to names.
	names map[string]string
	// seen counts the changes with each name.
	seen map[string]int
	// last is the last change that took effect.
	last   Point
	points []Point
	took   map[Point]time.Duration
}

func newJournal() journal {
	return journal{names: map[string]string{}, seen: map[string]int{}, last: "the start", took: map[Point]time.Duration{}}
}

// Reset starts a new run.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap, p.log = nil, newJournal()
}

// Points returns the points of the run so far, in order of first occurrence.
func (p *Proxy) Points() []Point {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Point(nil), p.log.points...)
}

// Took returns how long the runtime took for the call at a point.
func (p *Proxy) Took(point Point) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.took[point]
}

// arrived records a call and returns its name.
func (j *journal) arrived(method string, request []byte) Point {
	call := path.Base(method)
	if subject := j.subject(method, request); subject != "" {
		call += " " + subject
	}
	if reads(path.Base(method)) {
		return j.note(Point(call + " after " + string(j.last)))
	}
	j.seen[call]++
	if n := j.seen[call]; n > 1 {
		call += fmt.Sprintf(" #%d", n)
	}
	return j.note(Point(call))
}

func (j *journal) note(point Point) Point {
	if _, known := j.took[point]; !known {
		j.took[point] = 0
		j.points = append(j.points, point)
	}
	return point
}

// answered processes the runtime's response to the call at point.
func (j *journal) answered(method string, point Point, request, answer []byte, err error, took time.Duration) {
	j.took[point] = took
	if err != nil || reads(path.Base(method)) {
		return
	}
	j.last = point
	// A created object has its ID in the response, its name in the request.
	if id := value(decode(method, answer, protoreflect.MethodDescriptor.Output), "container_id", "pod_sandbox_id"); id != "" {
		j.names[id] = j.subject(method, request)
	}
}

// subject returns what the call is about: a container's name or an image; "" for the pod itself.
func (j *journal) subject(method string, request []byte) string {
	message := decode(method, request, protoreflect.MethodDescriptor.Input)
	if id := value(message, "container_id"); id != "" {
		return j.names[id]
	}
	if image := value(message, "image.user_specified_image", "image.image"); image != "" && strings.HasPrefix(path.Base(method), "PullImage") {
		return image
	}
	if path.Base(method) == "CreateContainer" {
		return value(message, "config.metadata.name")
	}
	return ""
}

// reads reports whether a CRI call changes nothing in a pod.
func reads(call string) bool {
	return strings.HasPrefix(call, "List") || strings.HasSuffix(call, "Status") || call == "Version" || call == "ReopenContainerLog" ||
		call == "RuntimeConfig" || call == "ImageFsInfo" || strings.HasSuffix(call, "Stats") || call == "GetContainerEvents"
}

// describe finds a method by its full name ("/runtime.v1.RuntimeService/Version").
func describe(method string) (protoreflect.MethodDescriptor, error) {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + name))
	if err != nil {
		return nil, fmt.Errorf("unknown method %s: %w", method, err)
	}
	described, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is not a method", method)
	}
	return described, nil
}

// decode parses a message of a method; it returns nil if that fails.
func decode(method string, data []byte, side func(protoreflect.MethodDescriptor) protoreflect.MessageDescriptor) protoreflect.Message {
	described, err := describe(method)
	if err != nil {
		return nil
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(side(described).FullName())
	if err != nil {
		return nil
	}
	message := kind.New()
	if proto.Unmarshal(data, message.Interface()) != nil {
		return nil
	}
	return message
}

// value returns the first non-empty string among the fields, given by their paths.
func value(message protoreflect.Message, fields ...string) string {
	for _, field := range fields {
		if text := at(message, field); text != "" {
			return text
		}
	}
	return ""
}

func at(message protoreflect.Message, field string) string {
	if message == nil {
		return ""
	}
	name, rest, nested := strings.Cut(field, ".")
	found := message.Descriptor().Fields().ByName(protoreflect.Name(name))
	switch {
	case found == nil:
		return ""
	case nested && found.Message() != nil:
		return at(message.Get(found).Message(), rest)
	case !nested && found.Kind() == protoreflect.StringKind:
		return message.Get(found).String()
	}
	return ""
}
