// A button. One that the key does not permit stays visible, and names the operation that is missing.
import type { ComponentChildren } from 'preact';
import { type Operation, permits } from '../session/policy.ts';
import { useSession } from '../session/use-session.ts';
import { notify } from './notices.tsx';

export type ButtonProps = {
  readonly kind?: 'primary' | 'danger' | 'plain' | 'quiet';
  readonly isSubmit?: boolean;
  readonly isDisabled?: boolean | undefined;
  readonly isPressed?: boolean;
  readonly label?: string;
  readonly title?: string;
  readonly onClick?: (() => unknown) | undefined;
  readonly children?: ComponentChildren;
};

export function Button({
  kind = 'plain',
  isSubmit = false,
  isDisabled = false,
  isPressed,
  label,
  title,
  onClick,
  children,
}: ButtonProps) {
  return (
    <button
      class={`button button-${kind}`}
      type={isSubmit ? 'submit' : 'button'}
      disabled={isDisabled}
      aria-label={label}
      aria-pressed={isPressed}
      title={title ?? label}
      onClick={() => void onClick?.()}
    >
      {children}
    </button>
  );
}

/** A button of an operation of the API. */
export function ActionButton({ needs, ...props }: ButtonProps & { readonly needs: Operation }) {
  const { policy } = useSession();
  if (permits(policy, needs)) return <Button {...props} />;
  const reason = `This key lacks the operation ${needs}`;
  return (
    <button
      class={`button button-${props.kind ?? 'plain'}`}
      type="button"
      aria-disabled="true"
      aria-label={props.label}
      title={reason}
      onClick={() => notify(reason)}
    >
      {props.children}
    </button>
  );
}
