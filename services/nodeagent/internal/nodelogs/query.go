package nodelogs

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The bounds of a query (kubernetes, pkg/kubelet/kubelet_server_journal.go).
const (
	maxTailLines     = 100_000
	maxServiceLength = 256
	maxServices      = 4
)

var unsafeCharacters = regexp.MustCompile(`[^a-zA-Z\-_.:0-9@]+`)

// query asks for the logs of services, or for one file.
type query struct {
	services, files []string
	options
}

// options select a part of services' logs.
type options struct {
	since, until *time.Time
	tail, boot   *int
	pattern      string
}

// parse reads the parameters of a request; nil if it is not a query. Errors have the kubelet's texts.
func parse(values url.Values) (*query, field.ErrorList) {
	var q query
	var faults field.ErrorList
	for _, name := range values["query"] {
		if strings.ContainsAny(name, `/\`) {
			q.files = append(q.files, strings.ReplaceAll(name, `\`, "/"))
		} else if strings.TrimSpace(name) != "" {
			q.services = append(q.services, name)
		}
	}
	if values.Has("query") && len(q.files)+len(q.services) == 0 {
		faults = append(faults, field.Invalid(field.NewPath("query"), values["query"], "may not be empty"))
	}
	for name, into := range map[string]**time.Time{"sinceTime": &q.since, "untilTime": &q.until} {
		if text := values.Get(name); text != "" {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				faults = append(faults, field.Invalid(field.NewPath(name), text, "invalid time format"))
				continue
			}
			*into = &at
		}
	}
	for name, into := range map[string]**int{"boot": &q.boot, "tailLines": &q.tail} {
		if text := values.Get(name); text != "" {
			number, err := strconv.Atoi(text)
			if err != nil {
				faults = append(faults, field.Invalid(field.NewPath(name), text, err.Error()))
				continue
			}
			*into = &number
		}
	}
	q.pattern = values.Get("pattern")
	if len(faults) > 0 || len(q.files)+len(q.services) == 0 && q.options == (options{}) {
		return nil, faults
	}
	return &q, nil
}

// validate returns what is wrong with a query.
func (q *query) validate(files fs.FS) (faults field.ErrorList) {
	at := field.NewPath("query")
	for _, service := range q.services {
		switch {
		case len(service) > maxServiceLength:
			faults = append(faults, field.Invalid(at, service, fmt.Sprintf("length must be less than %d", maxServiceLength)))
		case unsafeCharacters.MatchString(service):
			faults = append(faults, field.Invalid(at, service, "input contains unsupported characters"))
		}
	}
	if len(q.services) > maxServices {
		faults = append(faults, field.TooMany(at, len(q.services), maxServices))
	}
	switch {
	case len(q.files)+len(q.services) == 0:
		faults = append(faults, field.Required(at, "cannot be empty with options"))
	case len(q.files) > 0 && len(q.services) > 0:
		faults = append(faults, field.Invalid(at, fmt.Sprintf("%v, %v", q.files, q.services), "cannot specify a file and service"))
	case len(q.files) > 1:
		faults = append(faults, field.Invalid(at, q.files, "cannot specify more than one file"))
	case len(q.files) == 1 && q.options != (options{}):
		faults = append(faults, field.Invalid(at, q.files, "cannot specify file with options"))
	case len(q.files) == 1:
		if _, err := fs.Stat(files, within(q.files[0])); err != nil {
			faults = append(faults, field.Invalid(at, q.files, err.Error()))
		}
	}
	return append(faults, q.options.validate()...)
}

func (o *options) validate() (faults field.ErrorList) {
	if o.since != nil && o.until != nil && o.since.After(*o.until) {
		faults = append(faults, field.Invalid(field.NewPath("untilTime"), o.until, "must be after `sinceTime`"))
	}
	if o.boot != nil && *o.boot > 0 {
		faults = append(faults, field.Invalid(field.NewPath("boot"), *o.boot, "must be less than 1"))
	}
	if o.tail != nil {
		if problems := utilvalidation.IsInRange(*o.tail, 0, maxTailLines); problems != nil {
			faults = append(faults, field.Invalid(field.NewPath("tailLines"), *o.tail, problems[0]))
		}
	}
	if _, err := syntax.Parse(o.pattern, syntax.Perl); err != nil {
		faults = append(faults, field.Invalid(field.NewPath("pattern"), o.pattern, err.Error()))
	}
	return faults
}

// within returns a path as one in the folder of logs: "../x" and "/x" are x, as http.FileServer reads them.
func within(name string) string {
	cleaned := strings.TrimPrefix(path.Clean("/"+name), "/")
	if cleaned == "" {
		return "."
	}
	return cleaned
}
