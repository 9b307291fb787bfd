package busauth

import (
	"context"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
)

// Bounds of the subjects that a client is given. What is beyond them it follows over HTTP.
const (
	maxSubjects = 2000
	// maxSubjectBytes is for all of them: they are one message to NATS.
	maxSubjectBytes = 256 << 10
	// maxNames is how many names are looked at that roles list for everywhere, and maxLocalNames
	// for one namespace.
	maxNames, maxLocalNames = 500, 100
	// DefaultBudget is how many rules of one namespace are looked at.
	DefaultBudget = 4096
	// glances is how many rules are looked at between two looks at the clock.
	glances = 256
)

// Why somebody is given less than is allowed.
const (
	bySubjects = "subjects"
	byNames    = "names"
	byRules    = "rules"
	byTime     = "time"
)

// part is what is allowed of one namespace.
type part struct {
	namespace string
	*allowed
	whole map[*scheme.Kind]bool // of which all in the namespace is allowed
}

// search looks for the subjects of one user.
type search struct {
	reader
	// enough is when no more is looked for.
	enough time.Time
	found  granted
	parted []*scheme.Kind // Of these the user may not read the whole.
	parts  []part
	// narrowed says why the user is given less than is allowed; empty if it is given all.
	narrowed string
}

// subjects are those of the watch messages that a user may read: of whole resources, or else of a
// node's own, of namespaces, and of single names.
//
// Whoever rules a namespace may bind roles of it to anybody, with as many rules and names as they
// like. So what is granted there comes last; of each namespace only some rules are looked at, once,
// and never more than the time allows. Somebody who is given less than is allowed follows the rest
// over HTTP.
func (d *Decider) subjects(ctx context.Context, user authn.User) ([]watched, error) {
	key, keep := d.answers.key(d.cfg.Roles, user)
	if subjects, ok := d.answers.get(key); ok {
		return subjects, nil
	}
	s := &search{reader: reader{d, user}}
	if end, ok := ctx.Deadline(); ok {
		// The rest is for who signs what was found and for NATS, which does not wait longer.
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
			d.cfg.Logger.WarnContext(ctx, "A user may watch too much bit by bit; it follows the rest over HTTP",
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
	wide := newAllowed(s.kinds, maxNames)
	if err := s.cfg.Roles.Granted(s.user, "", func(rules []rbacv1.PolicyRule) bool {
		for i := range rules {
			wide.add(&rules[i])
		}
		return !s.over(ctx)
	}); err != nil {
		return err
	}
	for _, kind := range s.kinds.all {
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

// local finds what is allowed in a namespace.
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

// narrow adds what a user who may not read all of a kind may read of it everywhere: a node its pods
// and its Node, others the names that their roles list.
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

// lacksNames notes that the user is given fewer names than are allowed.
func (s *search) lacksNames() {
	if s.narrowed == "" {
		s.narrowed = byNames
	}
}

// whole adds the subjects of the kinds of which the user may read all that is in a namespace.
func (s *search) whole(p part, wide *allowed) {
	for _, kind := range s.parted {
		if kind.Namespaced && wide.whole(kind)|p.allowed.whole(kind) == mayBoth {
			p.whole[kind] = true
			s.found.add(view{kind: kind, namespace: p.namespace})
		}
	}
}

// single adds the subjects of the single names that the user may read in a namespace, but not beside
// those of all that is in it.
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

// watched is a subject of a view, or of how far its kind is.
type watched struct {
	subject  string
	view     view
	progress bool
}

// granted are the subjects that a user is given, within their bounds.
type granted struct {
	subjects []watched
	has      map[string]bool
	bytes    int
	full     bool
	parted   map[*scheme.Kind]bool // of which it has a part
}

// add adds a view. If it is a part of its kind, the user may read how far the kind is, too.
func (g *granted) add(v view) {
	if g.has == nil {
		g.has, g.parted = map[string]bool{}, map[*scheme.Kind]bool{}
	}
	if v != (view{kind: v.kind}) && !g.parted[v.kind] {
		g.parted[v.kind] = true
		g.keep(watched{subject: bus.ProgressSubject(v.kind.Group, v.kind.Resource), view: v, progress: true})
	}
	g.keep(watched{subject: bus.ViewSubject(v.kind.Group, v.kind.Resource, v.scope, v.namespace, v.name), view: v})
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
