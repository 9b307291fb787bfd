package busauth

import (
	"context"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
)

// Bounds for the subjects that a client is granted. It follows anything beyond them over HTTP.
const (
	maxSubjects = 2000
	// maxSubjectBytes bounds all of them together: they are one message to NATS.
	maxSubjectBytes = 256 << 10
	// maxNames bounds the names in roles that apply everywhere, and maxLocalNames those of one
	// namespace.
	maxNames, maxLocalNames = 500, 100
	// DefaultBudget is how many rules of one namespace are looked at.
	DefaultBudget = 4096
	// glances is how many rules are looked at between two checks of the clock.
	glances = 256
)

// Reasons why a user is granted less than it is allowed.
const (
	bySubjects = "subjects"
	byNames    = "names"
	byRules    = "rules"
	byTime     = "time"
)

// part is what is allowed in one namespace.
type part struct {
	namespace string
	*allowed
	whole map[*scheme.Kind]bool // the kinds for which everything in the namespace is allowed
}

// search looks for the subjects of one user.
type search struct {
	reader
	kinds *kinds
	// enough is when the search ends.
	enough time.Time
	found  granted
	parted []*scheme.Kind // The user may not read all of these kinds.
	parts  []part
	// narrowed is the reason why the user is granted less than it is allowed; empty if it is
	// granted everything.
	narrowed string
}

// subjects returns the subjects of the watch messages that a user may read: of everything, of whole
// groups and resources, or else of a node's own view, of namespaces and of single names.
//
// An owner of a namespace may bind its roles to any user, with any number of rules and names.
// Therefore what namespaces grant comes last. Only some rules of each namespace are looked at,
// once, and never for longer than the time allows. A user that is granted less than it is allowed
// follows the rest over HTTP.
func (d *Decider) subjects(ctx context.Context, user authn.User) ([]watched, error) {
	known := d.kinds.Get()
	key, keep := d.answers.key(d.cfg.Roles, known, user)
	if subjects, ok := d.answers.get(key); ok {
		return subjects, nil
	}
	s := &search{reader: reader{d, user}, kinds: known, found: granted{has: map[string]bool{}, parted: map[*scheme.Kind]bool{}}}
	if end, ok := ctx.Deadline(); ok {
		// The rest of the time is for signing the result, and for NATS, which does not wait longer.
		s.enough = time.Now().Add(time.Until(end) / 2)
	}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	if s.found.full && s.narrowed != byTime {
		s.narrowed = bySubjects
	}
	if s.narrowed != "" {
		d.narrowed.WithLabelValues(s.narrowed).Inc()
		if held, open := d.complaints.Open(time.Now()); open {
			d.cfg.Logger.WarnContext(ctx, "a user may watch too many separate views; it follows the rest over HTTP",
				"user", user.Name, "bound", s.narrowed, "notLogged", held)
		}
	}
	if keep && s.narrowed != byTime {
		d.answers.put(key, s.found.subjects)
	}
	return s.found.subjects, nil
}

func (s *search) run(ctx context.Context) error {
	namespaces, err := s.cfg.Roles.Namespaces(s.user)
	if err != nil {
		return err
	}
	wide, named := newAllowed(s.kinds, maxNames), &ahead{}
	if err := s.cfg.Roles.Granted(s.user, "", func(rules []rbacv1.PolicyRule) bool {
		for i := range rules {
			wide.add(&rules[i])
			named.add(&rules[i])
		}
		return !s.over(ctx)
	}); err != nil {
		return err
	}
	for _, kind := range s.ahead(ctx, named) {
		switch {
		case s.over(ctx):
			return nil
		case s.may(ctx, view{kind: kind}):
			s.found.add(view{kind: kind})
		default:
			s.parted = append(s.parted, kind)
			s.narrow(ctx, kind, wide)
		}
	}
	for _, namespace := range namespaces {
		if s.found.full || s.over(ctx) {
			return nil
		}
		p, err := s.local(ctx, namespace)
		if err != nil {
			return err
		}
		s.parts = append(s.parts, p)
		s.whole(p, wide)
	}
	for _, p := range s.parts {
		s.single(p, wide)
	}
	return nil
}

// over reports whether the time is up.
func (s *search) over(ctx context.Context) bool {
	if ctx.Err() == nil && (s.enough.IsZero() || time.Now().Before(s.enough)) {
		return false
	}
	s.narrowed = byTime
	return true
}

// local finds out what is allowed in a namespace.
func (s *search) local(ctx context.Context, namespace string) (part, error) {
	p := part{namespace: namespace, allowed: newAllowed(s.kinds, maxLocalNames), whole: map[*scheme.Kind]bool{}}
	budget, looked := s.cfg.Budget, 0
	err := s.cfg.Roles.Granted(s.user, namespace, func(rules []rbacv1.PolicyRule) bool {
		budget--
		for i := range rules {
			if budget -= cost(&rules[i]); budget < 0 && s.cfg.Budget > 0 {
				s.narrowed = byRules
				return false
			}
			budget -= p.add(&rules[i]) / perUnit
			if looked++; looked%glances == 0 && s.over(ctx) {
				return false
			}
		}
		return !s.over(ctx)
	})
	return p, err
}

// narrow adds what a user that may not read all of a kind may read of it everywhere: a node its
// pods and its Node, others the names that their roles list.
func (s *search) narrow(ctx context.Context, kind *scheme.Kind, wide *allowed) {
	if wide.misses(kind) {
		s.lacksNames()
	}
	own, isNode := node.Identity(s.user)
	isNode = isNode && own != ""
	if v := (view{kind: kind, scope: own}); isNode && kind.Scope != nil && s.may(ctx, v) {
		s.found.add(v)
	}
	if kind.Namespaced {
		return
	}
	if _, listed := wide.names[kind][own]; isNode && !listed && s.may(ctx, view{kind: kind, name: own}) {
		s.found.add(view{kind: kind, name: own})
	}
	for _, name := range wide.listed(kind) {
		if s.over(ctx) {
			return
		}
		if v := (view{kind: kind, name: name}); s.may(ctx, v) {
			s.found.add(v)
		}
	}
}

// lacksNames records that the user is granted fewer names than it is allowed.
func (s *search) lacksNames() {
	if s.narrowed == "" {
		s.narrowed = byNames
	}
}

// whole adds the subjects of the kinds of which the user may read everything in a namespace.
func (s *search) whole(p part, wide *allowed) {
	for _, kind := range s.parted {
		if kind.Namespaced && wide.whole(kind)|p.allowed.whole(kind) == mayBoth {
			p.whole[kind] = true
			s.found.add(view{kind: kind, namespace: p.namespace})
		}
	}
}

// single adds the subjects of the single names that the user may read in a namespace, unless it may
// read everything there.
func (s *search) single(p part, wide *allowed) {
	left := maxLocalNames
	for _, kind := range s.parted {
		if s.found.full || !kind.Namespaced || p.whole[kind] {
			continue
		}
		if p.misses(kind) {
			s.lacksNames()
		}
		for _, name := range append(p.listed(kind), wide.listed(kind)...) {
			if wide.single(kind, name)|p.single(kind, name) == mayBoth {
				if left == 0 {
					s.lacksNames()
					return
				}
				s.found.add(view{kind: kind, namespace: p.namespace, name: name})
				left--
			}
		}
	}
}

// watched is the subject of a view, or of its kind's progress.
type watched struct {
	subject  string
	view     view
	progress bool
	// covered means that another subject includes this one, which is only recorded.
	covered bool
}

// granted are the subjects that a user is granted, within their bounds.
type granted struct {
	subjects []watched
	has      map[string]bool
	bytes    int
	full     bool
	parted   map[*scheme.Kind]bool // the kinds of which it has a part
}

// add adds a view. If the view is a part of its kind, the user may also read the kind's progress.
func (g *granted) add(v view) {
	if v != (view{kind: v.kind}) && !g.parted[v.kind] {
		g.parted[v.kind] = true
		g.keep(watched{subject: subject.Progress(v.kind.Group, v.kind.Resource), view: v, progress: true})
	}
	g.keep(watched{subject: subject.View(v.kind.Group, v.kind.Resource, v.scope, v.namespace, v.name), view: v})
}

func (g *granted) keep(one watched) {
	if g.has[one.subject] {
		return
	}
	if g.full = g.full || len(g.subjects) >= maxSubjects || g.bytes+len(one.subject) > maxSubjectBytes; g.full {
		return
	}
	g.has[one.subject] = true
	g.subjects, g.bytes = append(g.subjects, one), g.bytes+len(one.subject)
}
