package admission

import "context"

// Chain is a sequence of plugins. The zero Chain admits every request. Any goroutine may use it.
type Chain struct {
	plugins []Plugin
}

// NewChain returns a chain of plugins, which run in the given order.
func NewChain(plugins ...Plugin) *Chain { return &Chain{plugins: plugins} }

// Mutate runs the plugins that may change req's object, before validation, and all of them once more if
// one asks for it. It stops at the first refusal and returns it, an apierror.
func (c *Chain) Mutate(ctx context.Context, req *Request) error {
	if err := c.mutate(ctx, req); err != nil || !req.reinvocation.wanted {
		return err
	}
	req.reinvocation.second = true
	return c.mutate(ctx, req)
}

func (c *Chain) mutate(ctx context.Context, req *Request) error {
	for _, p := range c.plugins {
		if p.Mutate == nil || !p.admits(req.Verb) {
			continue
		}
		if err := p.Mutate(ctx, req); err != nil {
			return err
		}
	}
	return nil
}

// Validate runs the plugins that check what will be written, after validation. It stops at the
// first refusal and returns it, an apierror. If the write certainly does not happen after all,
// req.Undo must be called.
func (c *Chain) Validate(ctx context.Context, req *Request) error {
	for _, p := range c.plugins {
		if p.Validate == nil || !p.admits(req.Verb) {
			continue
		}
		if err := p.Validate(ctx, req); err != nil {
			req.Undo(ctx)
			return err
		}
	}
	return nil
}

// admits reports whether a plugin sees requests of a verb.
func (p Plugin) admits(verb Verb) bool { return verb != Connect || p.Connections }

// Close ends what the plugins keep between requests. No request may be under way.
func (c *Chain) Close() {
	for _, p := range c.plugins {
		if p.Close != nil {
			p.Close()
		}
	}
}

// Names returns the plugins in the order in which they run.
func (c *Chain) Names() []string {
	names := make([]string, len(c.plugins))
	for i, p := range c.plugins {
		names[i] = p.Name
	}
	return names
}
