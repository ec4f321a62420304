"""The admin under themes that replace Django's own templates."""
